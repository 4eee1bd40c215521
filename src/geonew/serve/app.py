"""The app: the page's files, and five requests for the work behind it.

Static files are read once, when the app is made; a request only chooses among them by name. Errors
of every kind have one form, ``{"what": ..., "cure": ...}``.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Annotated, Any, Literal

from fastapi import FastAPI, Path, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp

from geonew import __version__
from geonew.errors import GeoNeWError
from geonew.serve.guard import Guard, Limits
from geonew.serve.meshes import suffix_of
from geonew.serve.pool import Pool, RefusedError
from geonew.serve.scene import Name, Scene, Seed, UploadedGeometry

UPLOAD_PATH = "/api/meshes"
# How long each kind of work may take, in seconds.
PREDICT_SECONDS, REFERENCE_SECONDS, READ_SECONDS = 30.0, 120.0, 20.0
# Uploaded meshes that are kept, and their bytes in all; the oldest go first.
MOST_MESHES, MOST_BYTES = 32, 256 * 2**20
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
BINARY = "application/octet-stream"


class Failure(BaseModel):
    """Every error: what happened, and what to do about it."""

    what: str
    cure: str


class UploadedMesh(BaseModel):
    """A mesh that was read."""

    token: str
    dim: int
    nodes: int
    cells: int
    groups: dict[str, int]
    notes: list[str]


@dataclass
class Shelf:
    """Uploaded meshes by random tokens, the latest ones only."""

    meshes: OrderedDict[str, bytes] = field(default_factory=OrderedDict)

    def put(self, mesh: bytes) -> str:
        """Keep a mesh; its token."""
        token = secrets.token_hex(16)
        self.meshes[token] = mesh
        while len(self.meshes) > MOST_MESHES or (
            len(self.meshes) > 1 and sum(map(len, self.meshes.values())) > MOST_BYTES
        ):
            self.meshes.popitem(last=False)
        return token

    def get(self, token: str) -> bytes:
        """The mesh of a token."""
        if token not in self.meshes:
            raise RefusedError(404, "this mesh is no longer kept", "upload it again")
        self.meshes.move_to_end(token)
        return self.meshes[token]


@dataclass(frozen=True, eq=False)
class Backstage:
    """The processes behind the app: predictions, truths, files."""

    predictors: Pool
    solvers: Pool
    readers: Pool

    @property
    def pools(self) -> tuple[Pool, Pool, Pool]:
        """All of them."""
        return self.predictors, self.solvers, self.readers

    @property
    def pids(self) -> list[int]:
        """Process numbers of all workers."""
        return [pid for pool in self.pools for pid in pool.pids]

    async def start(self) -> list[dict[str, Any]]:
        """Start them all; the models on offer."""
        try:
            # All of them to the end, so that none is left half started when another fails.
            made = await asyncio.gather(
                *(pool.start() for pool in self.pools), return_exceptions=True
            )
            for failed in (one for one in made if one is not None):
                raise failed
            head, _ = await self.predictors.ask({"do": "catalogue"}, seconds=PREDICT_SECONDS)
        except BaseException:
            await self.close()
            raise
        return head["models"]

    async def close(self) -> None:
        """End them all."""
        for pool in self.pools:
            await pool.close()


def _failures(*statuses: int) -> dict[int | str, dict[str, Any]]:
    always = (400, 408, 413, 421, 422, 429, 503, 504)
    return {status: {"model": Failure} for status in sorted({*always, *statuses})}


def _binary(description: str, kind: str = BINARY) -> dict[int | str, dict[str, Any]]:
    schema = {"type": "string", "format": "binary"}
    return {200: {"description": description, "content": {kind: {"schema": schema}}}}


def create_app(
    backstage: Backstage, models: list[dict[str, Any]], limits: Limits | None = None
) -> ASGIApp:
    """The guarded app.

    Args:
        backstage: started already.
        models: on offer.
        limits: of clients.

    """
    app = FastAPI(
        title="Geo-NeW", version=__version__, docs_url=None, redoc_url=None, lifespan=None
    )
    shelf = Shelf()
    keys = {model["key"] for model in models}
    static = _static_files()
    _add_error_handlers(app)

    def page(name: str) -> Response:
        if name not in static:
            raise RefusedError(404, "there is no such file")
        content, kind = static[name]
        return Response(content, media_type=kind)

    @app.get("/", include_in_schema=False)
    async def index() -> Response:
        return page("index.html")

    @app.get("/static/{name}", include_in_schema=False)
    async def static_file(name: str) -> Response:
        return page(name)

    @app.get("/api/models", responses=_failures())
    async def list_models() -> dict[str, Any]:
        """The models on offer, with what can be changed."""
        return {"version": __version__, "models": models}

    @app.get("/api/health", responses=_failures())
    async def health() -> dict[str, int]:
        """How busy the server is."""
        return {
            "workers": len(backstage.pids),
            "waiting": sum(pool.waiting for pool in backstage.pools),
        }

    @app.get("/api/models/{key}/draft", responses=_failures(404))
    async def draft(
        key: Annotated[Name, Path()],
        seed: Annotated[Seed, Query()] = 0,
        side: Annotated[Literal["inside", "outside"], Query()] = "inside",
    ) -> dict[str, Any]:
        """A random shape, in or out of the distribution that the model was trained on."""
        check(key)
        task = {"do": "draw", "model": key, "seed": seed, "outside": side == "outside"}
        head, _ = await backstage.predictors.ask(task, seconds=PREDICT_SECONDS)
        return head

    @app.post(
        "/api/predict",
        response_class=Response,
        responses=_failures(404, 409) | _binary("Fields, certificate, times"),
    )
    async def predict(scene: Scene) -> Response:
        """Fields on the mesh of a scene, with their certificate."""
        return Response(await work("predict", scene, backstage.predictors), media_type=BINARY)

    @app.post(
        "/api/reference",
        response_class=Response,
        responses=_failures(404, 409) | _binary("The truth, the errors, the times"),
    )
    async def reference(scene: Scene) -> Response:
        """The reference solution on the same mesh, and the error of the prediction."""
        content = await work("reference", scene, backstage.solvers, REFERENCE_SECONDS)
        return Response(content, media_type=BINARY)

    @app.post(
        "/api/export",
        response_class=Response,
        responses=_failures(404) | _binary("A file for ParaView", "application/xml"),
    )
    async def export(scene: Scene) -> Response:
        """The prediction as a .vtu file."""
        alone = scene.model_copy(update={"session": None})
        content = await work("export", alone, backstage.predictors)
        name = {"content-disposition": 'attachment; filename="geonew.vtu"'}
        return Response(content, media_type="application/xml", headers=name)

    body = {"content": {BINARY: {"schema": {"type": "string", "format": "binary"}}}}

    @app.post(
        UPLOAD_PATH,
        responses=_failures(),
        openapi_extra={"requestBody": {"required": True, **body}},
    )
    async def upload(
        request: Request, name: Annotated[str, Query(min_length=1, max_length=255)]
    ) -> UploadedMesh:
        """Read a mesh file; its name only says the format."""
        suffix = suffix_of(name)
        content = await request.body()
        if not content:
            raise RefusedError(422, "the file is empty", "choose another file")
        head, mesh = await backstage.readers.ask(
            {"do": "parse", "suffix": suffix}, content, seconds=READ_SECONDS
        )
        return UploadedMesh(token=shelf.put(mesh), **head)

    def check(key: str) -> None:
        if key not in keys:
            raise RefusedError(404, f"there is no model {key!r}", f"there are {sorted(keys)}")

    async def work(what: str, scene: Scene, pool: Pool, seconds: float = PREDICT_SECONDS) -> bytes:
        check(scene.model)
        mesh = b""
        if isinstance(scene.geometry, UploadedGeometry):
            mesh = shelf.get(scene.geometry.token)
        task = {"do": what, "scene": scene.model_dump(mode="json")}
        _, content = await pool.ask(task, mesh, seconds=seconds, session=scene.session or "")
        return content

    return Guard(app, limits or Limits(), UPLOAD_PATH)


def _add_error_handlers(app: FastAPI) -> None:
    def answer(
        status: int, what: str, cure: str = "", headers: Mapping[str, str] | None = None
    ) -> JSONResponse:
        return JSONResponse({"what": what, "cure": cure}, status, dict(headers or {}))

    @app.exception_handler(RefusedError)
    async def refused(request: Request, error: RefusedError) -> JSONResponse:
        headers = {"retry-after": "2"} if error.status == 503 else None
        return answer(error.status, error.what, error.cure, headers)

    @app.exception_handler(GeoNeWError)
    async def explained(request: Request, error: GeoNeWError) -> JSONResponse:
        return answer(422, error.what, error.cure)

    @app.exception_handler(RequestValidationError)
    async def malformed(request: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"] if part != "body")
        return answer(422, f"the request is not understood: {where}: {first['msg']}"[:500])

    @app.exception_handler(HTTPException)
    async def standard(request: Request, error: HTTPException) -> JSONResponse:
        return answer(error.status_code, str(error.detail), headers=error.headers)


def _static_files() -> dict[str, tuple[bytes, str]]:
    """Content and type of every file of the page, by name."""
    found = {}
    for file in files("geonew.serve").joinpath("static").iterdir():
        kind = TYPES.get(f".{file.name.rpartition('.')[2]}")
        if kind is not None:
            found[file.name] = (file.read_bytes(), kind)
    return found
