"""`webhooks`: endpoints, deliveries, and a receiver for trying them out."""

import sys
import time
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, HTTPServer
from itertools import islice
from typing import Annotated, ClassVar, cast

import typer

from anabranch.cli.connection import connect
from anabranch.cli.exit_codes import UsageError
from anabranch.cli.stack.start import interrupt_on_signals
from anabranch.cli.terminal.options import Json, Yes
from anabranch.cli.terminal.output import ago, escape, note, print_json, print_line, print_list, print_result
from anabranch.contract.answer import JsonValue
from anabranch.contract.webhooks import Delivery, NewWebhook, Webhook
from anabranch.errors import AnabranchError, Unavailable
from anabranch.webhook_signature import read_secret, verify_webhook

__all__ = ["add", "change", "deliveries", "list_webhooks", "listen", "remove", "replay", "rotate", "send_test"]

MAX_BODY_BYTES = 1_000_000
TEST_SECONDS = 60.0
POLL_SECONDS = 0.2
Endpoint = Annotated[str, typer.Argument(metavar="ENDPOINT", help="The endpoint's id.")]
OnlyEndpoint = Annotated[str | None, typer.Option("--endpoint", metavar="ENDPOINT", help="Only to this endpoint.")]
OnlySubject = Annotated[str | None, typer.Option("--subject", help="Only of this subject, like the id of a job.")]
OnlyEvent = Annotated[str | None, typer.Option("--event", help="Only of this event.")]

Events = Annotated[
    list[str] | None,
    typer.Option("--event", metavar="EVENT", help="An event, like job.completed or job.*; may be repeated."),
]


def list_webhooks(
    limit: Annotated[int, typer.Option(min=1, help="Maximum number of endpoints.")] = 100, json: Json = False
) -> None:
    """List the endpoints, the newest first, without their secrets."""
    with connect() as client:
        found = islice(client.webhooks.list(), limit)
        print_list(found, ["id", "platform", "url", "events", "status", "pending", "dead"], _endpoint_row, json=json)


def add(
    url: Annotated[str, typer.Argument(metavar="URL", help="Where messages are sent.")],
    event: Events = None,
    cloudevents: Annotated[bool, typer.Option("--cloudevents", help="Send CloudEvents.")] = False,
    description: Annotated[str, typer.Option(help="For people.")] = "",
    platform: Annotated[str | None, typer.Option(help="The platform it belongs to; by default your own.")] = None,
    json: Json = False,
) -> None:
    """Add an endpoint and print its secret; it is shown only once."""
    with connect() as client:
        made = client.webhooks.add(
            url, event or None, cloudevents=cloudevents, description=description, platform=platform
        )
    _print_secret(made, json=json)


def change(
    endpoint: Endpoint,
    url: Annotated[str | None, typer.Option(help="Where messages are sent.")] = None,
    event: Events = None,
    cloudevents: Annotated[
        bool | None, typer.Option("--cloudevents/--standard", help="Send CloudEvents, or not.")
    ] = None,
    description: Annotated[str | None, typer.Option(help="For people.")] = None,
    active: Annotated[
        bool | None, typer.Option("--active/--inactive", help="Whether messages are sent; also after an answer of 410.")
    ] = None,
    json: Json = False,
) -> None:
    """Change what is given of an endpoint; the rest stays."""
    with connect() as client:
        changed = client.webhooks.change(
            endpoint, url=url, events=event or None, cloudevents=cloudevents, description=description, active=active
        )
    print_result(changed, f"endpoint {changed.id} is {_status(changed)}", json=json)


def remove(endpoint: Endpoint, yes: Yes = False, json: Json = False) -> None:
    """Remove an endpoint with its deliveries and their log."""
    with connect() as client:
        known = client.webhooks.show(endpoint)
        if not yes:
            what = f"{known.id} ({known.url}) has {known.pending} pending deliveries and {known.dead} dead letters"
            raise UsageError("usage", what, remedy="They are removed with it: add --yes.")
        removed = client.webhooks.remove(endpoint)
    print_result(removed, f"removed {removed.id}", json=json)


def rotate(
    endpoint: Endpoint,
    keep_hours: Annotated[
        int, typer.Option(min=0, max=720, help="How long messages are signed with the former secret, too.")
    ] = 24,
    json: Json = False,
) -> None:
    """Replace the secret of an endpoint and print the new one; it is shown only once."""
    with connect() as client:
        _print_secret(client.webhooks.rotate(endpoint, keep_hours=keep_hours), json=json)


def send_test(endpoint: Endpoint, json: Json = False) -> None:
    """Send a test message and wait for the result of its first call."""
    with connect() as client:
        sent, deadline = client.webhooks.test(endpoint), time.monotonic() + TEST_SECONDS
        while not (shown := client.webhooks.delivery(sent.id)).calls:
            if time.monotonic() > deadline:
                raise Unavailable(
                    "webhook.untried", f"delivery {sent.id} was not tried in {TEST_SECONDS:g} s",
                    remedy="Check that an orchestrator runs: `anabranch workers`; other deliveries may be before it.",
                )  # fmt: skip
            time.sleep(POLL_SECONDS)
    if json:
        print_json(shown)
    elif shown.status == "delivered":
        print_line(f"delivered in {shown.calls[0].seconds:.2f} s: it answered {shown.response_status}")
    if shown.status != "delivered":
        raise Unavailable("webhook.undelivered", f"delivery {shown.id} failed: {shown.error}")


def deliveries(
    endpoint: OnlyEndpoint = None,
    subject: OnlySubject = None,
    event: OnlyEvent = None,
    status: Annotated[str | None, typer.Option(help="pending, delivered or dead.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="Maximum number of deliveries.")] = 50,
    json: Json = False,
) -> None:
    """List deliveries, the newest first; those with status dead are dead letters."""
    with connect() as client:
        wanted = client.webhooks.deliveries(endpoint=endpoint, subject=subject, event=event, status=status)
        found = list(islice(wanted, limit))
    head = ["id", "event", "subject", "url", "status", "attempts", "made", "error"]
    print_list(found, head, _delivery_row, json=json)


def replay(
    delivery: Annotated[
        str | None, typer.Argument(metavar="DELIVERY", help="The delivery's id; without one, dead letters.")
    ] = None,
    endpoint: OnlyEndpoint = None,
    subject: OnlySubject = None,
    event: OnlyEvent = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="Maximum number of dead letters.")] = 1000,
    json: Json = False,
) -> None:
    """Deliver a message again, or all dead letters that fit."""
    with connect() as client:
        if delivery is not None:
            again = client.webhooks.replay(delivery)
            print_result(again, f"delivery {again.id} is due again", json=json)
            return
        replayed = client.webhooks.replay_dead(endpoint=endpoint, subject=subject, event=event, limit=limit)
    print_result(replayed, f"{len(replayed.deliveries)} deliveries are due again", json=json)
    if replayed.left_out and not json:
        note(f"{replayed.left_out} are left out: their endpoints are inactive (`anabranch webhooks change --active`)")


def listen(
    event: Events = None,
    secret: Annotated[
        list[str] | None,
        typer.Option(
            "--secret",
            metavar="SECRET",
            help="Verify messages of endpoints that exist, signed with this; may be repeated. Without one, an endpoint"
            " for this command is added, and removed at the end.",
        ),
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port on loopback; 0 takes any free one.")] = 8788,
    count: Annotated[int | None, typer.Option(min=1, help="Stop after so many messages.")] = None,
) -> None:
    """Receive webhooks on this machine, verify their signatures, and print each as a line of JSON."""
    if secret and event:
        raise UsageError("usage", "--event chooses for an endpoint that is added, and with --secret none is")
    for one in secret or ():
        read_secret(one)
    with _Receiver(port) as receiver, interrupt_on_signals():
        if secret:
            receiver.print_messages(secret, count)
            return
        with connect() as client:
            made = client.webhooks.add(receiver.url, event or None, description="anabranch webhooks listen")
            try:
                receiver.print_messages([made.secret], count)
            finally:
                client.webhooks.remove(made.id)


class _Receiver(HTTPServer):
    """Takes messages that were signed with one of its secrets, and answers others with 401."""

    def __init__(self, port: int) -> None:
        self.secrets: Sequence[str] = ()
        self.messages: list[JsonValue] = []
        try:
            super().__init__(("127.0.0.1", port), _Handler)
        except OSError as error:
            what = f"port {port} of loopback can't be used: {error.strerror}"
            raise Unavailable("webhook.port", what, remedy="Choose another with --port.") from error

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.server_address[1]}/"

    def print_messages(self, secrets: Sequence[str], count: int | None) -> None:
        """Print so many messages, or all until it is stopped."""
        self.secrets = secrets
        note(f"listening on {self.url}")
        printed = 0
        while count is None or printed < count:
            self.handle_request()
            for message in self.messages:
                print_json(message, indent=None)
                sys.stdout.flush()
            printed += len(self.messages)
            self.messages.clear()


class _Handler(BaseHTTPRequestHandler):
    """One request."""

    timeout: ClassVar[float | None] = 10.0

    def do_POST(self) -> None:  # the library's name
        """Verify and answer."""
        receiver = cast(_Receiver, self.server)
        size = self.headers.get("Content-Length", "")
        if not size.isdecimal() or int(size) > MAX_BODY_BYTES:
            self.send_error(413)
            return
        body = self.rfile.read(int(size))
        try:
            receiver.messages.append(verify_webhook(body, dict(self.headers.items()), receiver.secrets))
        except AnabranchError as error:
            note(f"refused: {escape(error.message)}")
            self.send_error(401)
            return
        self.send_response(204)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # the library's name
        """Print nothing: only messages are printed."""


def _print_secret(made: NewWebhook, *, json: bool) -> None:
    if json:
        print_json(made)
        return
    print_line(made.secret)
    note(f"endpoint {made.id} of {made.platform} is called at {escape(made.url)}; its secret is shown only once")


def _endpoint_row(webhook: Webhook) -> list[object]:
    url, events = escape(webhook.url), ", ".join(webhook.events)
    return [webhook.id, webhook.platform, url, events, _status(webhook), webhook.pending, webhook.dead]


def _status(webhook: Webhook) -> str:
    return "inactive" if not webhook.active else "failing" if webhook.open_until else "active"


def _delivery_row(one: Delivery) -> list[object]:
    subject = one.subject[:12]
    error = escape(one.error or "")
    return [one.id, one.event, subject, escape(one.url), one.status, one.attempts, ago(one.made_at), error]
