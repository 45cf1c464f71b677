"""A scripted model server: it speaks the wire formats of model APIs, and no model is behind it.

Harnesses and the model loop run against it as against a provider. `python -m tests.model_server`
serves the ready scripts until it is interrupted.
"""

from tests.model_server.script import (
    Fault,
    FileRead,
    FileWrite,
    Reply,
    Script,
    ToolCall,
    Turn,
    Usage,
)
from tests.model_server.server import Conversation, Exchange, ModelServer

__all__ = [
    "Conversation",
    "Exchange",
    "Fault",
    "FileRead",
    "FileWrite",
    "ModelServer",
    "Reply",
    "Script",
    "ToolCall",
    "Turn",
    "Usage",
]
