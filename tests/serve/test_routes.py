"""HTTP routes of plugins."""

from starlette.responses import PlainTextResponse
from starlette.routing import Route

from omni_host.serve import ServeOptions, create_app
from tests.serve.calls import call_app
from tests.serve.fake_pipeline import FakePipeline, deployment


class RoutePlugins:
    """Plugins that offer a route of their own and one of the host's."""

    def __init__(self) -> None:
        self.asked = []

    def http_routes(self, context, enabled):
        self.asked.append((context.models, tuple(enabled)))

        async def hello(_request):
            return PlainTextResponse("hello")

        return [Route("/hello", hello), Route("/health", hello)]


def get(path: str, plugins: RoutePlugins, *enabled: str):
    options = ServeOptions(routes=enabled)
    app = create_app(FakePipeline(), deployment(), options, plugins=plugins)
    return call_app(app, "GET", path)


def test_they_are_served_once_enabled():
    plugins = RoutePlugins()

    assert get("/hello", plugins, "greeter").text == "hello"
    assert plugins.asked == [(("toy/talker",), ("greeter",))]


def test_they_are_off_by_default():
    plugins = RoutePlugins()

    assert get("/hello", plugins).status_code == 404
    assert plugins.asked == []


def test_they_cannot_take_a_path_of_the_hosts_own():
    assert get("/health", RoutePlugins(), "greeter").json()["status"] == "ok"
