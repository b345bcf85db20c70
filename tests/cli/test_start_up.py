"""What the command line imports, and when."""

HEAVY = "av pluggy pydantic numpy zmq msgpack fastapi uvicorn asyncio tomllib logging torch"


def test_help_imports_click_and_nothing_heavy(toy):
    done = toy.python(
        f"""
        import sys
        from omni_host.cli import main
        main(["--help"])
        loaded = sorted(set("{HEAVY} toy_plugin".split()) & set(sys.modules))
        print(loaded, file=sys.stderr)
        """
    )
    assert done.stdout.startswith("Usage: omni")
    assert done.stderr == "[]\n"


def test_explaining_imports_neither_stages_nor_the_runtime(toy):
    done = toy.python(
        """
        import sys
        from omni_host.cli import main
        main(["explain", "toy"])
        loaded = {"toy_stages", "zmq", "uvicorn", "torch"} & set(sys.modules)
        print(sorted(loaded), file=sys.stderr)
        """
    )
    assert "tones" in done.stdout
    assert done.stderr == "[]\n"


def test_speaking_imports_no_web_framework(toy):
    done = toy.python(
        """
        import sys
        from omni_host.cli import main
        code = main(["speak", "--model", "toy", "one"])
        loaded = {"fastapi", "starlette", "uvicorn", "prometheus_client"} & set(sys.modules)
        print(code, sorted(loaded))
        """
    )
    assert done.stdout == "0 []\n", done.stderr
