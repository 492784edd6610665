"""A lock in a bucket: one process at a time trains in a folder there, on whichever machine.

The lock is a small object that is written only if it is not there (``If-None-Match: *``). Its owner writes it again
every `RENEWED` seconds. A process that finds it watches it. If it changes, its owner is alive. If it does not change
for `EXPIRY` seconds, the owner's machine is lost, and the process takes the lock. No clocks are compared.
"""

import getpass
import json
import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

from nmt.system.errors import DataError

RENEWED, EXPIRY, LOOK = 20.0, 90.0, 5.0
"""Seconds between two renewals, until a lock without one expires, and between two looks at it."""
MACHINE = ("host", "boot", "namespace")
"""Facts of an owner that tell whose process its number counts. Machines may share a name, and so may containers."""
_REFUSED = ("PreconditionFailed", "ConditionalRequestConflict", "NoSuchKey", "412", "409", "404")
_UNKNOWN = ("NotImplemented", "501", "InvalidArgument")


class LockObject(Protocol):
    """One object in a bucket, written under conditions."""

    def create(self, content: bytes) -> str | None:
        """Write it if it is not there; return its version, or None if it is there."""

    def replace(self, content: bytes, version: str) -> str | None:
        """Write it if it still has this version; return its new version, or None."""

    def read(self) -> tuple[bytes, str] | None:
        """Return content and version, or None if it is not there."""

    def delete(self) -> None:
        """Delete it."""


class S3Object:
    """An object ``s3://BUCKET/KEY``; raises NotImplementedError if the server knows no conditions."""

    def __init__(self, url: str) -> None:
        import boto3

        bucket, _, key = url.removeprefix("s3://").partition("/")
        self._client, self._place = boto3.client("s3"), {"Bucket": bucket, "Key": key.strip("/")}

    def create(self, content: bytes) -> str | None:
        """Write it if it is not there; return its version, or None if it is there."""
        return self._put(content, IfNoneMatch="*")

    def replace(self, content: bytes, version: str) -> str | None:
        """Write it if it still has this version; return its new version, or None."""
        return self._put(content, IfMatch=version)

    def read(self) -> tuple[bytes, str] | None:
        """Return content and version, or None if it is not there."""
        found = self._asked(lambda: self._client.get_object(**self._place))
        return (found["Body"].read(), found["ETag"]) if found else None

    def delete(self) -> None:
        """Delete it."""
        self._client.delete_object(**self._place)

    def _put(self, content: bytes, **condition: str) -> str | None:
        put = self._asked(lambda: self._client.put_object(**self._place, Body=content, **condition))
        return str(put["ETag"]) if put else None

    def _asked(self, request: Callable[[], Any]) -> Any:
        """Return the answer to a request, or None if its condition does not hold or the object is not there."""
        from botocore.exceptions import ClientError

        try:
            return request()
        except ClientError as error:
            code = error.response["Error"]["Code"]
            if code in _UNKNOWN:
                raise NotImplementedError(str(error)) from None
            if code in _REFUSED:
                return None
            raise


class Lease:
    """The lock of one process.

    Args:
        place: the object.
        name: what it locks, for messages.
    """

    def __init__(self, place: LockObject, name: str) -> None:
        self._place, self._name, self._version = place, name, ""
        self._facts = {"user": getpass.getuser(), "host": socket.gethostname(), "process": os.getpid()}
        with suppress(OSError):  # other systems than Linux have no such files
            boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()
            self._facts |= {"boot": boot, "namespace": str(Path("/proc/self/ns/pid").readlink())}

    @contextmanager
    def held(self, lost: Callable[[], object]) -> Iterator[None]:
        """Hold the lock, and renew it, in the block.

        Args:
            lost: called if another process has taken the lock, as this one did not reach the bucket for too long.

        Raises:
            DataError: another process holds it.
        """
        try:
            self._claim()
        except NotImplementedError:
            _say(self._name, "the bucket's server has no conditional writes, so nothing keeps a second run away")
            yield
            return
        ended = threading.Event()
        thread = threading.Thread(target=self._keep, args=(ended, lost), daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()
            with suppress(Exception):  # of boto3: the lock expires by itself
                if self._own_version():
                    self._place.delete()

    def _claim(self) -> None:
        while not (version := self._place.create(self._content()) or self._own_version()):
            if not (found := self._place.read()):
                continue  # it was released meanwhile
            owner = json.loads(found[0])
            if not self._is_dead(owner):
                self._watch(owner, found[1])
            if version := self._place.replace(self._content(), found[1]):
                break
        self._version = version

    def _watch(self, owner: dict[str, Any], version: str) -> None:
        """Return if the lock was released, or has expired; raise DataError if its owner renews it."""
        holder = f"{owner['user']} on {owner['host']}, process {owner['process']}, since {owner['since']}"
        _say(self._name, f"locked by {holder}; looking for up to {EXPIRY:.0f} s whether that process is alive")
        end = time.monotonic() + EXPIRY
        while time.monotonic() < end:
            time.sleep(LOOK)
            found = self._place.read()
            if not found:
                return
            if found[1] != version:
                raise DataError(
                    f"{self._name}: expected no other run on this bucket, got one by {holder}; wait until it has "
                    "ended, or stop it there"
                )

    def _is_dead(self, owner: dict[str, Any]) -> bool:
        """Whether the owner is a process of this machine that has ended; an earlier version named only its host."""
        if any(owner[fact] != self._facts.get(fact) for fact in MACHINE if fact in owner):
            return False
        try:
            os.kill(int(owner["process"]), 0)
        except ProcessLookupError:
            return True
        except PermissionError:  # of another user
            return False
        return False

    def _keep(self, ended: threading.Event, lost: Callable[[], object]) -> None:
        while not ended.wait(RENEWED):
            with suppress(Exception):  # of boto3: the bucket is away
                if not (version := self._place.replace(self._content(), self._version) or self._own_version()):
                    _say(self._name, "another run has taken the lock, so this one ends")
                    lost()
                    return
                self._version = version

    def _own_version(self) -> str | None:
        """Return the version of the lock if this process wrote it, also if the bucket's answer to that was lost.

        Without an answer boto3 writes again. That is refused, because the first write has changed the version.
        """
        found = self._place.read()
        return found[1] if found and self._facts.items() <= json.loads(found[0]).items() else None

    def _content(self) -> bytes:
        self._facts.setdefault("since", time.strftime("%Y-%m-%d %H:%M:%S %Z"))
        return json.dumps(self._facts | {"renewed": time.time_ns()}).encode()


def _say(name: str, what: str) -> None:
    print(f"nmt: {name}: {what}", file=sys.stderr, flush=True)
