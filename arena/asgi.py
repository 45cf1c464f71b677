"""ASGI application: HTTP goes to Django, WebSockets go to consumers."""

from __future__ import annotations

import gc
import os

from channels.auth import AuthMiddlewareStack
from channels.routing import ProtocolTypeRouter, URLRouter
from channels.security.websocket import AllowedHostsOriginValidator
from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "arena.settings")
http = get_asgi_application()

import arena.urls  # noqa: E402, F401  (models load after Django is set up)
from arena import telemetry  # noqa: E402
from arena.prefix import OwnPrefix  # noqa: E402
from arena.runs.live.routing import websocket_urls  # noqa: E402
from arena.sockets import SameOriginValidator  # noqa: E402

telemetry.start()
application = OwnPrefix(
    ProtocolTypeRouter(
        {
            "http": http,
            "websocket": AllowedHostsOriginValidator(
                SameOriginValidator(AuthMiddlewareStack(URLRouter(websocket_urls)))
            ),
        }
    )
)
gc.freeze()  # what is loaded by now stays: a collection that walks it takes a tenth of a second
