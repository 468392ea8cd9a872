"""The API as a list of operations: from one description both the routes and the OpenAPI document are made.

An operation says what it takes (path, query, body) and what it gives as msgspec types. What does not fit the types is
answered with 400 before anybody works on it; what is given is encoded, tagged and compressed here.
"""

from __future__ import annotations

import gzip
import hashlib
import re
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple, get_args

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from numaware import __version__
from numaware.diagnose.texts import Lang, say
from numaware.errors import InputError
from numaware.sentence import Sentence
from numaware.serve.language import language_of
from numaware.serve.problems import MEDIA_TYPE, Problem, ProblemError

Method = Literal["GET", "POST", "PUT"]
_SMALLEST_ZIP = 1024


class Nothing(msgspec.Struct, frozen=True):
    """No query."""


class Call(NamedTuple):
    """One call, decoded: path parameters, query, body, and the request for whoever needs more."""

    path: dict[str, str]
    query: Any
    body: Any
    request: Request

    @property
    def lang(self) -> Lang:
        """The language in which sentences are told."""
        return language_of(self.request.headers)


Handler = Callable[[Call], Awaitable[Any]]


class Operation(NamedTuple):
    """One thing that can be asked. `raw` bodies are left to who reads the request; a Response is sent as it is."""

    method: Method
    path: str
    summary: str
    handler: Handler
    gives: Any
    query: type[msgspec.Struct] = Nothing
    body: Any = None
    raw: str = ""
    tag: str = "console"
    # What a reader gets who accepts text/event-stream.
    streams: Any = None
    missing: tuple[int, ...] = ()
    # What the answers of these operations are wrapped in, mistakes included: they read the request themselves.
    envelope: Any = None


class Packed(NamedTuple):
    """An answer that is kept encoded, with the tag that tells whether it is still the same."""

    data: bytes
    zipped: bytes
    tag: str
    media_type: str = "application/json"


def packed(value: Any, lang: Lang = "en") -> Packed:
    """A value as it is sent, its sentences told in a language; what is zipped is tagged by that, which is shorter."""
    data = msgspec.json.encode(value, enc_hook=partial(say, lang=lang))
    return zipped(data, 1 if len(data) >= _SMALLEST_ZIP else 0)


def zipped(data: bytes, level: int, media_type: str = "application/json") -> Packed:
    """Bytes as they are sent; on level 0 they are sent as they are."""
    small = gzip.compress(data, level, mtime=0) if level else b""
    tag = hashlib.blake2b(small or data, digest_size=12).hexdigest()
    return Packed(data, small, f'"{tag}"', media_type)


def route(operation: Operation) -> Route:
    """The operation as a route of Starlette."""

    async def wrapped(request: Request) -> Response:
        answer: Response = await operation.handler(Call(request.path_params, None, None, request))
        return answer

    async def endpoint(request: Request) -> Response:
        try:
            call = Call(
                request.path_params, _query(operation, request), await _body(operation, request), request
            )
            found = await operation.handler(call)
        except InputError as error:
            detail = Sentence("{source}: {problem}", source=error.source, problem=error.problem)
            raise ProblemError(422, detail, error.hint) from None
        if isinstance(found, Response):
            return found
        answer = found if isinstance(found, Packed) else packed(found, call.lang)
        # Asked for anew each time, the past too: whoever has given back the token may not see it any more.
        return sent(request, answer, "no-cache", "accept-encoding, accept-language")

    return Route(operation.path, wrapped if operation.envelope else endpoint, methods=[operation.method])


def _query(operation: Operation, request: Request) -> Any:
    given = dict(request.query_params)
    if len(given) < len(request.query_params.multi_items()):
        raise ProblemError(400, Sentence("a query parameter is there twice"))
    strange = sorted(given.keys() - set(operation.query.__struct_encode_fields__))
    if strange:
        raise ProblemError(400, Sentence("there is no query parameter {name!r}", name=strange[0][:40]))
    try:
        return msgspec.convert(given, operation.query, strict=False)
    except msgspec.ValidationError as error:
        raise ProblemError(400, Sentence("query: {problem}", problem=str(error))) from None


async def _body(operation: Operation, request: Request) -> Any:
    if operation.raw or operation.body is None:
        return None
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        raise ProblemError(415, Sentence("the body has to be application/json"))
    try:
        return msgspec.json.decode(await request.body(), type=operation.body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ProblemError(400, Sentence("body: {problem}", problem=str(error))) from None


def sent(request: Request, found: Packed, kept: str, vary: str = "accept-encoding") -> Response:
    """The answer that the request can take: none where it has it already, zipped where it says so."""
    headers = {"etag": found.tag, "cache-control": kept, "vary": vary, "content-type": found.media_type}
    if request.method in ("GET", "HEAD") and found.tag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    if found.zipped and "gzip" in request.headers.get("accept-encoding", ""):
        return Response(found.zipped, headers=headers | {"content-encoding": "gzip"})
    return Response(found.data, headers=headers)


# The document

# What any operation may answer before it is reached.
_AT_THE_DOOR = {"401", "403", "408", "413", "421", "429", "503"}
_LANGUAGE = {
    "name": "Accept-Language",
    "in": "header",
    "required": False,
    "description": "en or zh: the language of sentences. What kubelets, schedulers and API servers said is quoted.",
    "schema": {"type": "string"},
}


def openapi(operations: Sequence[Operation]) -> dict[str, Any]:
    """The OpenAPI 3.1 document of the operations."""
    fields = [msgspec.structs.fields(operation.query) for operation in operations]
    types = [
        Problem,
        *(
            kind
            for operation in operations
            for kind in (operation.gives, operation.body, operation.streams, operation.envelope)
            if kind
        ),
        *(field.type for group in fields for field in group),
    ]
    schemas, components = _named(types)
    schema_of = {id(kind): schema for kind, schema in zip(types, schemas, strict=True)}
    paths: dict[str, dict[str, Any]] = {}
    for operation, group in zip(operations, fields, strict=True):
        described = _described(operation, group, schema_of)
        paths.setdefault(operation.path, {})[operation.method.lower()] = described
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "numaware console",
            "version": __version__,
            "description": "Every NUMA node of a cluster: what is free to pin, who holds what, what a kubelet would say and why.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths,
        "components": {
            "schemas": components,
            "parameters": {"language": _LANGUAGE},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"token": []}],
    }


def _named(types: Sequence[Any]) -> tuple[Sequence[Any], dict[str, Any]]:
    """Schemas of the types and of what they are made of, by the names that people know.

    Where two types have one name, the other room's bears its room's name too. What is packed into an array says what
    stands where.
    """
    schemas, components = msgspec.json.schema_components(types, ref_template="#/components/schemas/{name}")
    text = msgspec.json.encode((schemas, components)).decode()
    for name in components:
        if "." in name:
            _, room, *_, last = name.split(".")
            plain = last if room == "serve" else room.title() + last
            text = text.replace(f'"{name}"', f'"{plain}"').replace(f'/{name}"', f'/{plain}"')
    found, named = msgspec.json.decode(text)
    for kind in _packed_types(types):
        names = [field.encode_name for field in msgspec.structs.fields(kind)]
        for name, item in zip(names, named[kind.__name__]["prefixItems"], strict=True):
            item["title"] = name
    return found, named


def _packed_types(types: Sequence[Any]) -> set[type[msgspec.Struct]]:
    """The structs among the types, and within them, that are sent as arrays."""
    seen: set[Any] = set()
    left = list(types)
    while left:
        kind = left.pop()
        if kind in seen:
            continue
        seen.add(kind)
        left += get_args(kind)
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            left += [field.type for field in msgspec.structs.fields(kind)]
    structs = [kind for kind in seen if isinstance(kind, type) and issubclass(kind, msgspec.Struct)]
    return {kind for kind in structs if kind.__struct_config__.array_like}


def _described(
    operation: Operation, fields: Sequence[msgspec.structs.FieldInfo], schema_of: dict[int, Any]
) -> dict[str, Any]:
    problem = {"description": "Problem", "content": {MEDIA_TYPE: {"schema": schema_of[id(Problem)]}}}
    statuses = _AT_THE_DOOR | (set() if operation.envelope else {"400", "422", *map(str, operation.missing)})
    content = {"application/json": {"schema": schema_of[id(operation.gives)]}}
    if operation.streams is not None:
        content["text/event-stream"] = {"schema": schema_of[id(operation.streams)]}
    described: dict[str, Any] = {
        "summary": operation.summary,
        "operationId": f"{operation.method.lower()}_{re.sub(r'[^a-z0-9]+', '_', operation.path.lower()).strip('_')}",
        "tags": [operation.tag],
        "parameters": [
            {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
            for name in re.findall(r"\{(\w+)", operation.path)
        ]
        + [
            {
                "name": field.encode_name,
                "in": "query",
                "required": field.required,
                "schema": schema_of[id(field.type)],
            }
            for field in fields
        ]
        + [{"$ref": "#/components/parameters/language"}],
        "responses": {"200": {"description": "The answer", "content": content}},
    }
    if operation.body is not None:
        statuses |= set() if operation.envelope else {"415"}
        taken = {"application/json": {"schema": schema_of[id(operation.body)]}}
        described["requestBody"] = {"required": not operation.envelope, "content": taken}
    elif operation.raw:
        taken = {operation.raw: {"schema": {"type": "string", "format": "binary"}}}
        described["requestBody"] = {"required": True, "content": taken}
    described["responses"] |= dict.fromkeys(sorted(statuses), problem)
    if operation.envelope:
        schema = {"application/json": {"schema": schema_of[id(operation.envelope)]}}
        wrapped = {"description": "The answer that says why not", "content": schema}
        described["responses"] |= dict.fromkeys(("404", "405", *map(str, operation.missing)), wrapped)
        # The door stands before them, and does not know whom it guards.
        both = schema | {MEDIA_TYPE: {"schema": schema_of[id(Problem)]}}
        described["responses"]["400"] = {"description": "The caller's mistake", "content": both}
    return described
