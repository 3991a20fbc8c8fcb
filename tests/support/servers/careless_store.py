"""An S3 store that answers like one and ignores ``If-None-Match``, as `rclone serve s3` 1.75 does, or refuses it."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from http.server import BaseHTTPRequestHandler
from threading import Lock
from urllib.parse import parse_qs, unquote

from support.servers.serving import Answering, serving

__all__ = ["careless_store"]


@contextmanager
def careless_store(
    status_of_condition: int = 200,
    puts: dict[str, Mapping[str, str]] | None = None,
    storm: Callable[[str, bool], int | None] = lambda _, __: None,
    window_seconds: float = 0.0,
) -> Iterator[tuple[str, dict[str, bytes]]]:
    """Serves until left; gives the endpoint and the objects by path, bucket included.

    Args:
        status_of_condition: answer to a put with a condition: 200 if it is ignored, 501 if the service does not know
            conditions. 412 makes it a good store, which refuses what is there.
        puts: gets the headers of each put by its path.
        storm: gives the status of an answer in place of the store's; None lets the store answer. It gets the first line
            of the request, and whether that is a put with a condition.
        window_seconds: between the look at what is there and the write.
    """
    objects: dict[str, bytes] = {}
    writing = Lock()

    class Handler(Answering, BaseHTTPRequestHandler):
        def do_PUT(self) -> None:
            place = unquote(self.path)
            if self.is_struck():
                return
            if puts is not None:
                puts[place] = dict(self.headers)
            data = self.body()
            status = status_of_condition if "If-None-Match" in self.headers else 200
            with nullcontext() if window_seconds else writing:
                if status == 412 and place not in objects:
                    status = 200
                    time.sleep(window_seconds)
                if status == 200:
                    objects[place] = data
            self.answer(status)

        def do_GET(self) -> None:
            if self.is_struck():
                return
            path, _, query = unquote(self.path).partition("?")
            if "list-type" in query:
                self.answer(200, self.listed(path, parse_qs(query).get("prefix", [""])[0]))
                return
            if path not in objects:
                self.answer(404)
                return
            # bytes=3-9, the ninth included
            first, _, last = self.headers.get("Range", "").removeprefix("bytes=").partition("-")
            value = objects[path]
            if last:
                part = value[int(first) : int(last) + 1]
                self.answer(206, part, Content_Range=f"bytes {first}-{int(first) + len(part) - 1}/{len(value)}")
            else:
                self.answer(200, value)

        do_HEAD = do_GET  # noqa: N815 - the base class calls it so

        def do_DELETE(self) -> None:
            objects.pop(unquote(self.path), None)
            self.answer(204)

        def do_POST(self) -> None:
            """The bulk delete, of which icefloe sends even a single key, and both ends of an upload in parts."""
            if "upload" in self.path:
                self.answer_upload()
                return
            body = self.body().decode()
            bucket = self.path.partition("?")[0].rstrip("/")
            keys = [part.partition("</Key>")[0] for part in body.split("<Key>")[1:]]
            for key in keys:
                objects.pop(f"{bucket}/{key}", None)
            deleted = "".join(f"<Deleted><Key>{key}</Key></Deleted>" for key in keys)
            self.answer(200, f"<DeleteResult>{deleted}</DeleteResult>".encode())

        def answer_upload(self) -> None:
            if puts is not None:
                puts[self.path] = dict(self.headers)
            self.body()
            is_begun = "uploads" in self.path.partition("?")[2]
            kind, name = ("Initiate", "UploadId") if is_begun else ("Complete", "ETag")
            self.answer(200, f"<{kind}MultipartUploadResult><{name}>0</{name}></{kind}MultipartUploadResult>".encode())

        def is_struck(self) -> bool:
            status = storm(self.requestline, "If-None-Match" in self.headers)
            if status is not None:
                # The next request begins after what this one sent.
                self.body()
                self.answer(status, b"<Error><Code>SlowDown</Code></Error>")
            return status is not None

        def listed(self, bucket: str, prefix: str) -> bytes:
            """All of it on one page."""
            keys = [path.removeprefix(f"{bucket}/") for path in objects]
            found = "".join(
                f"<Contents><Key>{key}</Key><Size>{len(objects[f'{bucket}/{key}'])}</Size>"
                "<LastModified>2026-11-21T07:00:00.000Z</LastModified></Contents>"
                for key in sorted(keys) if key.startswith(prefix)
            )  # fmt: skip
            return f"<ListBucketResult><IsTruncated>false</IsTruncated>{found}</ListBucketResult>".encode()

        def answer(self, status: int, body: bytes = b"", **headers: str) -> None:
            super().answer(status, body, ETag='"0"', Last_Modified="Sat, 21 Nov 2026 07:00:00 GMT", **headers)

    with serving(Handler) as url:
        yield url, objects
