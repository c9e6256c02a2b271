"""gRPC requests to proxies of RocketMQ, one at a time, as a test tells them: no client decides here
to which proxy a request goes. `proxy_talks.py` has what each line of input and of output says.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import queue
import sys
import threading
import time
from typing import Any
from uuid import uuid4

import grpc
from rocketmq.grpc_protocol import definition_pb2 as definition
from rocketmq.grpc_protocol import service_pb2 as service
from rocketmq.grpc_protocol.service_pb2_grpc import MessagingServiceStub

_LATEST_S = 20.0
_LONGEST_POLL_S = 5


class Refused(Exception):
    """A session that the proxy does not take."""


class Session:
    """A client at a proxy: its settings, what it sends and receives, what it is asked."""

    def __init__(self, proxy: str, client: str, settings: Any, credentials: list[str]) -> None:
        self.proxy, self.client, self._credentials = proxy, client, credentials
        self.stub = MessagingServiceStub(grpc.insecure_channel(proxy))
        self.asked: queue.Queue[dict[str, str]] = queue.Queue()
        self._told: queue.Queue[Any] = queue.Queue()
        self._told.put(service.TelemetryCommand(settings=settings))
        self._settled = threading.Event()
        self.refused = ""
        commands = self.stub.Telemetry(iter(self._told.get, None), metadata=self.metadata())
        threading.Thread(target=self._listen, args=(commands,), daemon=True).start()

    def metadata(self) -> list[tuple[str, str]]:
        """The headers of each request."""
        now = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        found = [
            ("x-mq-language", "PYTHON"),
            ("x-mq-protocol", "GRPC_V2"),
            ("x-mq-client-version", "5.1.2"),
            ("x-mq-date-time", now),
            ("x-mq-request-id", str(uuid4())),
            ("x-mq-client-id", self.client),
            ("x-mq-namespace", ""),
        ]
        if self._credentials:
            key, secret = self._credentials
            mac = hmac.new(secret.encode(), now.encode(), hashlib.sha1).hexdigest()
            parts = f"Credential={key}, SignedHeaders=x-mq-date-time, Signature={mac}"
            found.append(("authorization", f"MQv2-HMAC-SHA1 {parts}"))
        return found

    def wait_for_settings(self) -> None:
        assert self._settled.wait(_LATEST_S), f"{self.proxy} does not take the settings"
        if self.refused:
            raise Refused(self.refused)

    def end(self) -> None:
        """Ends the stream of commands."""
        self._told.put(None)

    def _listen(self, commands: Any) -> None:
        try:
            for command in commands:
                if command.HasField("status") and command.status.code != definition.OK:
                    self.refused = command.status.message
                if self.refused or command.HasField("settings"):
                    self._settled.set()
                if command.HasField("recover_orphaned_transaction_command"):
                    found = command.recover_orphaned_transaction_command
                    self.asked.put(
                        {
                            "body": found.message.body.decode(),
                            "id": found.message.system_properties.message_id,
                            "transaction": found.transaction_id,
                        }
                    )
        except grpc.RpcError as error:
            self.refused = error.details() or str(error)
            self._settled.set()


_sessions: dict[tuple[str, str], Session] = {}


def _named(name: str) -> Any:
    return definition.Resource(name=name)


def join(wanted: dict[str, Any]) -> dict[str, Any]:
    """Begins a session: of a producer, or of a consumer in a group."""
    settings = definition.Settings()
    settings.request_timeout.seconds = 10
    settings.user_agent.language = definition.PYTHON
    topics = [_named(topic) for topic in wanted["topics"]]
    if "group" in wanted:
        settings.client_type = definition.SIMPLE_CONSUMER
        settings.subscription.group.name = wanted["group"]
        for topic in topics:
            entry = settings.subscription.subscriptions.add(topic=topic)
            entry.expression.type, entry.expression.expression = definition.TAG, "*"
    else:
        settings.client_type = definition.PRODUCER
        settings.publishing.topics.extend(topics)
    credentials = wanted.get("credentials", [])
    session = Session(wanted["proxy"], wanted["client"], settings, credentials)
    session.wait_for_settings()
    _sessions[session.proxy, session.client] = session
    return {"code": "OK"}


def send(session: Session, wanted: dict[str, Any]) -> dict[str, Any]:
    message = definition.Message(topic=_named(wanted["topic"]), body=wanted["body"].encode())
    about = message.system_properties
    about.message_id = f"01{uuid4().hex.upper()}"
    about.message_type = definition.MessageType.Value(wanted.get("kind", "NORMAL"))
    about.body_encoding = definition.IDENTITY
    about.born_timestamp.GetCurrentTime()
    answer = session.stub.SendMessage(
        service.SendMessageRequest(messages=[message]), metadata=session.metadata(), timeout=10
    )
    found = {"code": definition.Code.Name(answer.status.code), "why": answer.status.message}
    for entry in answer.entries:
        found |= {
            "code": definition.Code.Name(entry.status.code),
            "id": entry.message_id,
            "transaction": entry.transaction_id,
        }
    return found


def receive(session: Session, wanted: dict[str, Any]) -> dict[str, Any]:
    request = service.ReceiveMessageRequest(group=_named(wanted["group"]), batch_size=16)
    request.message_queue.topic.name = wanted["topic"]
    request.message_queue.broker.name = wanted.get("broker", "")
    request.filter_expression.type, request.filter_expression.expression = definition.TAG, "*"
    request.invisible_duration.seconds = wanted["invisible_s"]
    request.long_polling_timeout.seconds = _LONGEST_POLL_S
    found: dict[str, Any] = {"code": "", "messages": []}
    timeout = 2 * _LONGEST_POLL_S
    for part in session.stub.ReceiveMessage(request, metadata=session.metadata(), timeout=timeout):
        if part.HasField("status"):
            found["code"] = definition.Code.Name(part.status.code)
            found["why"] = part.status.message
        if part.HasField("message"):
            about = part.message.system_properties
            one = {
                "body": part.message.body.decode(),
                "id": about.message_id,
                "receipt": about.receipt_handle,
                "attempt": about.delivery_attempt,
            }
            found["messages"].append(one)
    return found


def ack(session: Session, wanted: dict[str, Any]) -> dict[str, Any]:
    request = service.AckMessageRequest(
        group=_named(wanted["group"]), topic=_named(wanted["topic"])
    )
    request.entries.add(message_id=wanted["id"], receipt_handle=wanted["receipt"])
    answer = session.stub.AckMessage(request, metadata=session.metadata(), timeout=10)
    codes = {one.status.code for one in answer.entries} or {answer.status.code}
    why = [one.status.message for one in answer.entries] or answer.status.message
    return {"code": definition.Code.Name(codes.pop()), "why": why}


def hide(session: Session, wanted: dict[str, Any]) -> dict[str, Any]:
    """Changes the time until a message comes again."""
    request = service.ChangeInvisibleDurationRequest(
        group=_named(wanted["group"]), topic=_named(wanted["topic"]),
        receipt_handle=wanted["receipt"], message_id=wanted["id"],
    )  # fmt: skip
    request.invisible_duration.seconds = wanted["invisible_s"]
    answer = session.stub.ChangeInvisibleDuration(request, metadata=session.metadata(), timeout=10)
    name = definition.Code.Name(answer.status.code)
    return {"code": name, "why": answer.status.message, "receipt": answer.receipt_handle}


def end(session: Session, wanted: dict[str, Any]) -> dict[str, Any]:
    """Ends a transaction."""
    request = service.EndTransactionRequest(
        topic=_named(wanted["topic"]), message_id=wanted["id"],
        transaction_id=wanted["transaction"],
        resolution=definition.COMMIT if wanted["commit"] else definition.ROLLBACK,
        source=definition.SOURCE_SERVER_CHECK if wanted["asked"] else definition.SOURCE_CLIENT,
    )  # fmt: skip
    answer = session.stub.EndTransaction(request, metadata=session.metadata(), timeout=10)
    return {"code": definition.Code.Name(answer.status.code), "why": answer.status.message}


def asked(session: Session, wanted: dict[str, Any]) -> dict[str, Any]:
    """What the client was asked about a transaction since the last time."""
    try:
        return {"code": "OK", **session.asked.get(timeout=wanted["wait_s"])}
    except queue.Empty:
        return {"code": "NOTHING"}


def leave(session: Session, _: dict[str, Any]) -> dict[str, Any]:
    request = service.NotifyClientTerminationRequest()
    answer = session.stub.NotifyClientTermination(request, metadata=session.metadata(), timeout=10)
    session.end()
    return {"code": definition.Code.Name(answer.status.code), "why": answer.status.message}


_DOES = {one.__name__: one for one in (send, receive, ack, hide, end, asked, leave)}


def answer(wanted: dict[str, Any]) -> dict[str, Any]:
    try:
        if wanted["do"] == "join":
            return join(wanted)
        return _DOES[wanted["do"]](_sessions[wanted["proxy"], wanted["client"]], wanted)
    except Refused as refused:
        return {"code": "REFUSED", "why": str(refused)}
    except grpc.RpcError as error:
        return {"code": error.code().name, "why": error.details()}


if __name__ == "__main__":
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), flush=True)
