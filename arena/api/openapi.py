"""The OpenAPI description: operations that also document how they fail."""

from __future__ import annotations

from typing import Any

from ninja import NinjaAPI
from ninja.openapi.schema import OpenAPISchema

ERROR = {
    "title": "Error",
    "type": "object",
    "description": "A refusal: what is wrong, and what to do.",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["code", "message", "hint"],
            "properties": {
                "code": {"type": "string", "examples": ["not_found"]},
                "message": {"type": "string"},
                "hint": {"type": "string"},
                "fields": {
                    "type": "object",
                    "additionalProperties": {"type": "string"},
                    "description": "A message for each field that is not valid.",
                },
                "expected": {
                    "type": "integer",
                    "description": "With the code `gap`: the number to send from.",
                },
            },
        }
    },
}
REFUSAL = {
    "description": "A refusal; 429 has the header Retry-After where the wait is known.",
    "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}},
}


class DocumentedAPI(NinjaAPI):
    """An API whose operations all document the form of their refusals."""

    def get_openapi_schema(self, **more: Any) -> OpenAPISchema:
        schema = super().get_openapi_schema(**more)
        schema["components"]["schemas"]["Error"] = ERROR
        for operations in schema["paths"].values():
            for operation in operations.values():
                operation["responses"]["4XX"] = REFUSAL
        return schema
