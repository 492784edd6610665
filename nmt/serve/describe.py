"""The OpenAPI description of the JSON interface, made from the models that check the requests."""

from collections.abc import Mapping
from importlib import metadata

from pydantic import BaseModel

from nmt.system.files import Json

REFUSED = {
    "400": "not UTF-8, not JSON, or the wrong Host header", "401": "no token", "404": "no such model",
    "408": "the body came too slowly", "411": "no Content-Length", "413": "the body is too long",
    "415": "not application/json", "422": "a wrong value", "429": "too many requests",
    "500": "an internal error", "503": "the model is busy",
}  # fmt: skip
PROBLEM = {
    "type": "object", "required": ["error", "expected", "got"],
    "properties": {key: {"type": "string"} for key in ("error", "expected", "got")},
}  # fmt: skip
TEXTS = {"type": "array", "items": {"type": "string"}}
TRANSLATION = {
    "type": "object", "required": ["text", "score", "ids"],
    "properties": {
        "text": {"type": "string"}, "score": {"type": "number"}, "ids": {"type": "array", "items": {"type": "integer"}},
    },
}  # fmt: skip
WEIGHTS = {"type": "array", "items": {"type": "array", "items": {"type": "array", "items": {"type": "number"}}}}
ANSWERS: dict[str, Json] = {
    "/api/translate": {
        "source": {"type": "string"}, "sentences": {"type": "integer"},
        "translations": {"type": "array", "items": TRANSLATION},
    },
    "/api/attention": {"rows": TEXTS, "columns": TEXTS, "weights": WEIGHTS},
}  # fmt: skip


def openapi(questions: Mapping[str, type[BaseModel]]) -> Json:
    """Return the description in OpenAPI 3.1; ``questions`` are the bodies of the POST requests, by path."""
    models = {"models": {"type": "array", "items": {"type": "object"}}, "limits": {"type": "object"}}
    paths: dict[str, Json] = {
        "/api/models": {"get": {"summary": "The models and the limits", "responses": _responses(models, ["401"])}},
        "/metrics": {"get": {"summary": "Counts and times for Prometheus", "responses": {
            "200": {"description": "the values", "content": {"text/plain": {"schema": {"type": "string"}}}},
        }}},
    }  # fmt: skip
    for path, question in questions.items():
        body = {"required": True, "content": {"application/json": {"schema": question.model_json_schema()}}}
        answer = {"model": {"type": "string"}} | ANSWERS[path]
        summary = path.removeprefix("/api/").capitalize()
        paths[path] = {"post": {"summary": summary, "requestBody": body, "responses": _responses(answer, REFUSED)}}
    return {
        "openapi": "3.1.0", "info": {"title": "nmt serve", "version": metadata.version("nmt")}, "paths": paths,
        "components": {"securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
        "security": [{}, {"token": []}],
    }  # fmt: skip


def _responses(answer: Json, refused: "Mapping[str, str] | list[str]") -> Json:
    shape = {"type": "object", "required": list(answer), "properties": answer}
    found = {"200": {"description": "the answer", "content": {"application/json": {"schema": shape}}}}
    for status in refused:
        content = {"application/json": {"schema": PROBLEM}}
        found[status] = {"description": REFUSED[status], "content": content}
    return found
