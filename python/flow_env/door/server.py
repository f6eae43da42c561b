"""The environment of agent programs is an HTTP server: which episode a request belongs to, limits, retries."""

from __future__ import annotations

import asyncio
import json
import logging
import os
from typing import Any, Awaitable, Callable, Dict, Iterable, List, Mapping, Optional, Set

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from ..limits import Json, clean
from . import folders, sandboxes, strict
from .anthropic import Anthropic
from .ask import Refusal
from .chat import Chat, Event
from .episode import Call, Episode, over
from .forking import Forks
from .responses import Responses
from .run import Run
from .settings import ProgramSettings, canonical, digest
from .tasks import Tasks
from .world import World

BODY = 16 << 20
"""A request may have so many bytes."""
PATIENCE = 60.0
"""Seconds in which a request must have come whole."""
REMEMBERED = 10_000
"""So many ended episodes are remembered: their late requests learn that they are late."""

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Server(World):
    """Serves all episodes. Path or key names the episode; `/v1/...` without `/e/KEY` goes by the key."""

    def __init__(self, text: str) -> None:
        self.settings = self.program = ProgramSettings.of_json(text)
        self.tasks = Tasks.of_file(self.program.tasks)
        self.name = "program " + " ".join(self.program.command)[:200]
        self.episodes: Dict[str, Optional[Run]] = {}
        self.runner: Optional[web.AppRunner] = None
        self.port = 0
        reward = self.program.reward
        checks = [reward["command"]] if isinstance(reward, dict) and "command" in reward else []
        self.sandbox = sandboxes.of(self.program, [self.program.command, *checks], self.program.folder)
        self.socket = ""
        self.forks = Forks(self.program.command, self.program.folder) if self.program.start == "fork" else None

    async def begin(self) -> None:
        app = web.Application(client_max_size=BODY)
        chat, anthropic = Chat(), Anthropic()
        for prefix in ("", "/e/{key}"):
            app.router.add_route("HEAD", prefix + "/", self.alive)
            app.router.add_post(prefix + "/v1/chat/completions", self.asking(chat))
            app.router.add_post(prefix + "/v1/responses", self.asking(Responses()))
            app.router.add_post(prefix + "/v1/messages", self.asking(anthropic))
            app.router.add_post(prefix + "/v1/messages/count_tokens", self.guarded(self.count(anthropic), anthropic))
            app.router.add_post(prefix + "/v1/reward", self.guarded(self.reward, chat))
            app.router.add_get(prefix + "/v1/models", self.guarded(self.models, chat))
            app.router.add_get(prefix + "/v1/models/{model:.+}", self.guarded(self.models, chat))
        app.router.add_route("*", "/{rest:.*}", self.guarded(self.unknown, chat))
        logging.getLogger("aiohttp.server").addFilter(is_ours)
        self.runner = web.AppRunner(app, access_log=None, handler_cancellation=True)
        await self.runner.setup()
        site = web.TCPSite(self.runner, "127.0.0.1", 0, backlog=1024)
        await site.start()
        self.port = self.runner.addresses[0][1]
        if self.sandbox is not None:
            self.socket = os.path.join(folders.own(), "socket")
            await web.UnixSite(self.runner, self.socket, backlog=1024).start()

    async def end(self) -> None:
        if self.runner is not None:
            await self.runner.cleanup()
        if self.forks is not None:
            await self.forks.close()
        if self.sandbox is not None:
            self.sandbox.close()

    def episode(self, task: Json, seed: int) -> Run:
        run = Run(self.program, self.port, task, seed, self.forks, self.sandbox, self.socket)
        self.episodes[run.key] = run
        return run

    def closed(self, episode: Episode) -> None:
        """Late requests are still told apart from wrong keys."""
        self.episodes.pop(episode.key, None)
        self.episodes[episode.key] = None
        while len(self.episodes) > REMEMBERED and next(iter(self.episodes.values())) is None:
            del self.episodes[next(iter(self.episodes))]

    def find(self, request: web.Request) -> Run:
        """The episode of a request."""
        named = keys(request)
        if len(named) != 1 or not named <= set(self.episodes):
            raise Refusal("the key names no episode, or path and key differ", 401, "authentication_error", "invalid_api_key")
        episode = self.episodes[named.pop()]
        if episode is None or episode.outcome is not None:
            raise over()
        return episode

    def guarded(self, do: Handler, dialect: Any) -> Handler:
        """Refusals in the protocol's own form."""

        async def handler(request: web.Request) -> web.StreamResponse:
            try:
                return await do(request)
            except Refusal as refusal:
                self.note(request, refusal)
                # A client that tried again would only be refused again.
                return web.json_response(dialect.error(refusal), status=refusal.status, headers={"x-should-retry": "false"})

        return handler

    def note(self, request: web.Request, refusal: Refusal) -> None:
        """Keeps a refusal for the error of its episode, which path or key names although they may differ."""
        for key in keys(request):
            episode = self.episodes.get(key)
            if episode is not None and episode.outcome is None:
                episode.refusal = refusal

    def asking(self, dialect: Any) -> Handler:
        async def ask(request: web.Request) -> web.StreamResponse:
            episode = self.find(request)
            asked = dialect.parse(parsed(await self.read(request)), episode.store)
            # Not of the body: Codex tries again with its metadata in another order.
            name = digest([dialect.prefix, asked.model, asked.messages, asked.tools, asked.max_tokens, asked.stop, asked.choices, asked.must_call])
            call = self.tried(episode.digests.get(name, []), request.headers)
            if call is None:
                call = episode.ask(asked)
                episode.digests.setdefault(name, []).append(call)
            call.requests += 1
            try:
                reply = await asyncio.shield(call.reply)
                whole = dialect.answer(asked, reply, call.node.id, episode.store)
                response = await self.send(request, whole, dialect.events(asked, whole) if asked.stream else None)
                call.delivered = True
                return response
            except Refusal:
                call.delivered = True
                raise
            finally:
                call.requests -= 1

        return self.guarded(ask, dialect)

    def tried(self, calls: List[Call], headers: Mapping[str, str]) -> Optional[Call]:
        """The call that a request with the same body tries again: its client says so, or the first client is gone without an answer."""
        left = [call for call in calls if call.requests == 0 and not call.delivered]
        if left:
            return left[0]
        return calls[-1] if calls and headers.get("x-stainless-retry-count", "0") not in ("", "0") else None

    async def send(self, request: web.Request, whole: Json, events: Optional[Iterable[Event]]) -> web.StreamResponse:
        headers = {"x-request-id": whole["id"]}
        response: web.StreamResponse
        if events is None:
            response = web.json_response(whole, headers=headers)
            await response.prepare(request)
        else:
            response = web.StreamResponse(headers={**headers, "content-type": "text/event-stream", "cache-control": "no-cache"})
            await response.prepare(request)
            lines = [(f"event: {name}\n" if name else "") + f"data: {'[DONE]' if data is None else canonical(data)}\n\n" for name, data in events]
            await response.write("".join(lines).encode())
        await response.write_eof()
        return response

    async def read(self, request: web.Request) -> bytes:
        try:
            return await asyncio.wait_for(request.read(), PATIENCE)
        except asyncio.TimeoutError:
            raise Refusal(f"the request didn't come whole within {PATIENCE:g} s", 408, "timeout_error") from None
        except web.HTTPRequestEntityTooLarge:
            raise Refusal(f"the request has more than {BODY} bytes", 413, "request_too_large") from None
        except (web.RequestPayloadError, ConnectionError) as error:
            raise Refusal(f"the request can't be read whole: {error}") from None

    def count(self, dialect: Anthropic) -> Handler:
        async def count(request: web.Request) -> web.StreamResponse:
            episode = self.find(request)
            return web.json_response(dialect.count(dialect.parse(parsed(await self.read(request)), episode.store)))

        return count

    async def reward(self, request: web.Request) -> web.StreamResponse:
        episode = self.find(request)
        episode.earn(parsed(await self.read(request)))
        return web.json_response({"ok": True})

    async def models(self, request: web.Request) -> web.StreamResponse:
        self.find(request)
        name = request.match_info.get("model", self.settings.name_model)
        model = {"id": name, "object": "model", "created": 0, "owned_by": "flow", "type": "model", "display_name": name,
                 "created_at": "1970-01-01T00:00:00Z"}
        if "model" in request.match_info:
            return web.json_response(model)
        return web.json_response({"object": "list", "data": [model], "has_more": False, "first_id": name, "last_id": name})

    async def alive(self, request: web.Request) -> web.StreamResponse:
        return web.Response()

    async def unknown(self, request: web.Request) -> web.StreamResponse:
        self.find(request)
        raise Refusal(f"there is no {request.method} {clean(request.path.partition('/v1')[2])[:80] or '/'} here", 404, "not_found_error")


def is_ours(record: logging.LogRecord) -> bool:
    """Whether a log record isn't of a request that is no HTTP: its client gets a 400, and that is all."""
    error = record.exc_info[1] if record.exc_info else None
    return not isinstance(error, (HttpProcessingError, web.RequestPayloadError))


def keys(request: web.Request) -> Set[str]:
    """The keys that name the episode of a request: one, unless something is wrong."""
    bearer = request.headers.get("Authorization", "").rpartition(" ")[2]
    return {key for key in (request.match_info.get("key"), bearer, request.headers.get("x-api-key")) if key}


def parsed(raw: bytes) -> Json:
    """The object in a body, with texts that UTF-8 can hold."""
    try:
        body = strict.loads(raw.decode("utf-8-sig"))
    except ValueError as error:
        raise Refusal(f"the body can't be read as JSON: {error}") from None
    if b"\\u" in raw:
        body = json.loads(clean(json.dumps(body, ensure_ascii=False)))
    if not isinstance(body, dict):
        raise Refusal("the body is no object")
    return body


WORLD = Server
