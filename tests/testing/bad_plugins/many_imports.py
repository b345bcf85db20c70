"""Brings half of the standard library with it."""

import asyncio  # noqa: F401
import http.server  # noqa: F401
import multiprocessing.managers  # noqa: F401
import sqlite3  # noqa: F401
import tkinter.constants  # noqa: F401
import unittest.mock  # noqa: F401
import xml.etree.ElementTree  # noqa: F401
import xmlrpc.server  # noqa: F401

from toy_voice import build_stages, claim_of  # noqa: F401

from omni_host.api import PluginInfo

PLUGIN = PluginInfo(name="many_imports", summary="imports whatever it may need")
claim_model = claim_of("many_imports")
