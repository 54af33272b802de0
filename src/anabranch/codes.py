"""Stable error codes: meaning, remedy, HTTP status and exit code (O6).

A package or plugin that raises codes of its own brings them in its `codes.py`, by an entry point.
"""

from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

from anabranch.engine.entry_points import CODE_GROUP, load_entry_points
from anabranch.errors import AnabranchError, Kind

__all__ = ["LOCAL", "Code", "all_codes", "code_of", "find_code", "find_remedy", "status_of", "with_remedy"]


# The status of an error that only commands and clients report.
LOCAL = 0
RELEASE_REMEDIES = {
    "gate.timed_out": "Nobody decided in time; submit it again: `anabranch releases resubmit`.",
    "job.cancelled": "Nothing, where it was revoked or replaced on purpose; else `anabranch releases resubmit`, over HTTP "
    "`POST /api/platform/releases/{release_id}/resubmit`, submits its order again, which is reviewed again.",
}


class Code(NamedTuple):
    """One code, in one line of a list; its own status overrides that of its kind."""

    code: str
    kind: Kind
    meaning: str
    remedy: str
    own_status: int | None = None

    @property
    def status(self) -> int | None:
        """The HTTP status; None if no request is answered with this code."""
        return self.kind.status if self.own_status is None else self.own_status or None

    @property
    def exit_code(self) -> int:
        """The exit code of a command that fails with it."""
        return self.kind.exit_code

    @property
    def retryable(self) -> bool:
        """Whether a retry may succeed."""
        return self.kind.retryable


# Sorted by code; `make reference` writes docs/reference/errors.md from all lists.
# fmt: off
CODES: tuple[Code, ...] = (
    Code("api.broken_off", Kind.UNAVAILABLE, "The API answered fewer lines than it was sent.", "Send the rest again; jobs that already exist are found, not created twice.", LOCAL),
    Code("api.connections", Kind.UNAVAILABLE, "The API has reached its limit of connections.", "Try again; close unused connections, or raise ANABRANCH_MAX_CONNECTIONS."),
    Code("api.memory", Kind.UNAVAILABLE, "The API has no memory left for this request.", "Ask for less, or try again; the operator can raise ANABRANCH_API_MEMORY_MB."),
    Code("api.no_session", Kind.UNAVAILABLE, "The API has no session with the database.", "Try again; if it persists, check the API's log and `anabranch doctor`."),
    Code("api.not_ready", Kind.UNAVAILABLE, "The API can't serve now; anonymous callers get no details.", "Try again; the operator finds the cause with `anabranch doctor`."),
    Code("api.silent", Kind.UNAVAILABLE, "The API accepted a request and did not answer in time.", "Run `anabranch doctor` to see which part hangs.", LOCAL),
    Code("api.stalled", Kind.UNAVAILABLE, "The API's event loop is blocked.", "Restart the API."),
    Code("api.starting", Kind.UNAVAILABLE, "The API has no session with the database yet.", "Try again in a second."),
    Code("api.stopping", Kind.UNAVAILABLE, "The API is shutting down.", "Try again."),
    Code("api.unreachable", Kind.UNAVAILABLE, "Nothing answers at the API's address.", "Start it with `anabranch up --detach`.", LOCAL),
    Code("api.unreadable", Kind.INTERNAL, "The server at the API's address sent an unexpected response.", "Check that it is Anabranch, and of the same version.", LOCAL),
    Code("api.url_invalid", Kind.INVALID, "The API address is invalid.", "Give one that begins with http:// or https:// and names a host.", LOCAL),
    Code("asset.deleted", Kind.CONFLICT, "The asset was deleted.", "Restore it first: `anabranch assets restore`."),
    Code("asset.not_found", Kind.NOT_FOUND, "There is no such asset.", "List releases with `anabranch releases list`."),
    Code("asset.shown", Kind.CONFLICT, "A release of the asset is published.", "Revoke it first: `anabranch releases revoke RELEASE --reason …`; `anabranch releases list --latest` lists what is published."),
    Code("auth.expired", Kind.NOT_ALLOWED, "The key or token has expired.", "Get another.", 401),
    Code("auth.forbidden", Kind.NOT_ALLOWED, "The scope of the key or token does not include the required one.", "Use a key or a token with that scope."),
    Code("auth.invalid", Kind.NOT_ALLOWED, "The credential is neither a key of this API nor a token of its issuer.", "Send one as `Authorization: Bearer …`; the API never reveals which keys exist.", 401),
    Code("auth.misplaced", Kind.INVALID, "A key or a token is in the URL, in a header other than `Authorization`, or in the body.", "Send it as `Authorization: Bearer …` only; revoke it if others may have seen it."),
    Code("auth.missing", Kind.NOT_ALLOWED, "A key or a token is required, and none was sent.", "Send one as `Authorization: Bearer …`.", 401),
    Code("auth.open_address", Kind.INVALID, "The API would listen beyond loopback without keys.", "Set ANABRANCH_AUTH to keys or leave it out, or listen on 127.0.0.1, ::1 or localhost.", LOCAL),
    Code("auth.revoked", Kind.NOT_ALLOWED, "The key was revoked.", "Ask for another.", 401),
    Code("auth.token", Kind.NOT_ALLOWED, "The issuer signed the token, and it can't be used here: it is for another audience or issuer, or lacks a claim.", "The message names the claim; get a token for this API.", 401),
    Code("auth.too_many", Kind.THROTTLED, "The address has sent too many wrong keys.", "Wait as long as `Retry-After` says; send a valid key."),
    Code("auth.unavailable", Kind.UNAVAILABLE, "Keys can't be looked up, or those of the issuer of tokens not fetched, now.", "Try again; the operator finds the cause with `anabranch doctor`."),
    Code("auth.unmapped", Kind.NOT_ALLOWED, "The token is valid, and gives no scope, or no platform that exists.", "The message names the claims; have the issuer fill them, or map their values in the settings `oidc`."),
    Code("auth.unsendable", Kind.INVALID, "The key is empty, or has characters that a key can't contain.", "Set ANABRANCH_API_KEY to what `anabranch keys create` printed.", LOCAL),
    Code("backup.damaged", Kind.INVALID, "A file of a backup is missing, cut off or changed.", "Use another backup.", LOCAL),
    Code("backup.database", Kind.UNAVAILABLE, "PostgreSQL's own programs could not write or read the database.", "Fix what their last lines report.", LOCAL),
    Code("backup.incomplete", Kind.INVALID, "The folder is no backup, or the backup was interrupted.", "Use another backup.", LOCAL),
    Code("backup.interrupted", Kind.UNAVAILABLE, "The connection that kept objects from removal during a backup was lost.", "Make the backup again.", LOCAL),
    Code("backup.no_programs", Kind.UNAVAILABLE, "PostgreSQL's programs for backups are not installed.", "Install the client programs of the server's version.", LOCAL),
    Code("backup.running", Kind.CONFLICT, "A backup of the database, or a sweep of its storage, is running.", "Wait for its end.", LOCAL),
    Code("backup.target", Kind.INVALID, "The folder can't take a backup.", "Name a new folder outside of the tiers.", LOCAL),
    Code("backup.unknown", Kind.INVALID, "The backup has a format that this version does not know.", "Use the version that made it, or a later one.", LOCAL),
    Code("bench.died", Kind.UNAVAILABLE, "A process of the benchmark died.", "The message has its last output.", LOCAL),
    Code("bench.failed", Kind.INTERNAL, "A job of the benchmark failed.", "See the error of the job in the message.", LOCAL),
    Code("bench.no_peer", Kind.UNAVAILABLE, "What a benchmark compares with is missing, or does not answer.", "The message says what to install.", LOCAL),
    Code("bench.no_wrk", Kind.UNAVAILABLE, "The program wrk is not installed.", "Run `sudo apt-get install wrk`.", LOCAL),
    Code("bench.not_ready", Kind.UNAVAILABLE, "The API of the benchmark was not ready in time.", "Run it on a less busy machine.", LOCAL),
    Code("bench.not_warm", Kind.UNAVAILABLE, "The workers of the benchmark did not start in time.", "Run it on a less busy machine.", LOCAL),
    Code("bench.wrong", Kind.INTERNAL, "A benchmark gave a wrong result.", "Report it: its figures mean nothing.", LOCAL),
    Code("bulk.refused", Kind.INVALID, "Some jobs of a bulk submission were refused.", "Fix the reported lines and send them again."),
    Code("child.cancelled", Kind.TASK, "The job that a task ran was cancelled.", "Retry the job that ran it."),
    Code("child.failed", Kind.TASK, "The job that a task ran failed.", "Look at that job with `anabranch status`; fix the cause, then retry the job that ran it."),
    Code("cluster.closed_folder", Kind.UNAVAILABLE, "The database server's user can't enter the data folder.", "Open the folders above it (chmod o+x), or set ANABRANCH_HOME to another folder.", LOCAL),
    Code("cluster.damaged", Kind.UNAVAILABLE, "The embedded database's folder holds no database.", "Restore it from a backup, or remove it with `anabranch down --purge --yes`.", LOCAL),
    Code("cluster.failed", Kind.UNAVAILABLE, "The embedded PostgreSQL did not start.", "Fix what its last lines report; the full log is `logs/postgres.log` in the home.", LOCAL),
    Code("cluster.foreign", Kind.CONFLICT, "The home is a copy of another home, and its database belongs to the original.", "Remove `cluster.json` in the copy to give it a new database.", LOCAL),
    Code("cluster.no_server", Kind.UNAVAILABLE, "No PostgreSQL server that is new enough is installed.", "Install it as the message says, or set ANABRANCH_DATABASE_URL to a server you have.", LOCAL),
    Code("cluster.no_user", Kind.UNAVAILABLE, "PostgreSQL refuses to run as root, and there is no other user for it.", "Create the user that the message names.", LOCAL),
    Code("cluster.running", Kind.CONFLICT, "A server is already running on the data folder.", "Stop it with `anabranch down`.", LOCAL),
    Code("cluster.wrong_version", Kind.UNAVAILABLE, "The embedded database was created by another version of PostgreSQL.", "Install that version.", LOCAL),
    Code("database.age", Kind.USAGE, "The value is not a valid age.", "Write it like 30d, 12h or 45m."),
    Code("database.busy", Kind.CONFLICT, "A long transaction blocked a migration.", "Run it again when the transaction has ended."),
    Code("database.connections", Kind.INVALID, "The stack would take more than half of the server's connections.", "Start fewer workers, or raise the server's max_connections.", LOCAL),
    Code("database.differs", Kind.CONFLICT, "The database differs from the files.", "`anabranch db redeploy` repairs functions, views, triggers and grants; tables need a migration.", LOCAL),
    Code("database.full", Kind.UNAVAILABLE, "The processes of the database would take more connections than its server has; a worker waits for others to end.", "Run fewer workers, use a pooler, or raise the server's max_connections.", LOCAL),
    Code("database.in_use", Kind.CONFLICT, "Live processes use the database that is to be removed.", "Stop them with `anabranch down`; killed processes count until their lease expires.", LOCAL),
    Code("database.interrupted", Kind.UNAVAILABLE, "The database could not complete an operation: an upgrade is under way, it waited too long, or it failed.", "Try again."),
    Code("database.held_off", Kind.UNAVAILABLE, "The database is being restored or reset, and processes wait for the end.", "It is tried again; if no such command is running, run the one that was interrupted again."),
    Code("database.locks", Kind.UNAVAILABLE, "A transaction needs more locks than the server has room for, as a restore of thousands of layers may.", "Raise `max_locks_per_transaction` of the server as the error says, restart it, and run this again."),
    Code("database.locked", Kind.CONFLICT, "Another migration, or a restore, is running on the database.", "Wait until it has ended, and run this again."),
    Code("database.migration_changed", Kind.CONFLICT, "A migration file differs from the one that was applied.", "Restore the file: a released migration never changes."),
    Code("database.migration_missing", Kind.CONFLICT, "The file of an applied migration is gone.", "Restore the file."),
    Code("database.migration_skipped", Kind.CONFLICT, "The migration ledger lacks a migration that should precede applied ones.", "Restore the database from a backup, or repair the ledger."),
    Code("database.migrations_invalid", Kind.DEFINITION, "The migration files have a gap, a duplicate number, or a wrong name.", "Fix the files."),
    Code("database.newer", Kind.CONFLICT, "The database was migrated by a later release.", "Upgrade Anabranch."),
    Code("database.not_allowed", Kind.NOT_ALLOWED, "The database user may not act as the owner, or create the roles.", "Let an administrator run the statements in the message, or connect as the owner.", 403),
    Code("database.not_migrated", Kind.UNAVAILABLE, "The database has no Anabranch schema, or not the required version of it.", "Run `anabranch db migrate` with this database URL."),
    Code("database.password", Kind.UNAVAILABLE, "The file or the command for the password of the database gave none.", "Fix ANABRANCH_DATABASE_PASSWORD_FILE or ANABRANCH_DATABASE_PASSWORD_COMMAND."),
    Code("database.refused", Kind.INTERNAL, "The database refused a value or statement.", "It is a bug in Anabranch: report it, with the log line."),
    Code("database.schema_taken", Kind.CONFLICT, "The schema `app` belongs to another application.", "Use another database.", LOCAL),
    Code("database.silent", Kind.UNAVAILABLE, "The database accepts statements and does not answer.", "Run `anabranch doctor` to see what is wrong; if the server hangs, restart it. Then try again."),
    Code("database.sql_invalid", Kind.DEFINITION, "An SQL file can't be deployed.", "Fix the file."),
    Code("database.too_old", Kind.UNAVAILABLE, "The server is older than PostgreSQL 15.", "Use a newer server.", LOCAL),
    Code("database.unconfirmed", Kind.USAGE, "The command would remove jobs.", "Confirm with `--yes`."),
    Code("database.unreachable", Kind.UNAVAILABLE, "PostgreSQL does not answer, or only reads.", "Start the server, or fix ANABRANCH_DATABASE_URL; `anabranch doctor` checks both."),
    Code("database.unsound", Kind.INTERNAL, "The engine's state violates an invariant.", "It is a bug in Anabranch, or somebody changed rows by hand: report it with the output of `anabranch db audit`.", LOCAL),
    Code("database.url_invalid", Kind.INVALID, "The database URL can't be read.", "Write postgresql://user:password@host:port/name, and encode @ : / ? # % in the password.", LOCAL),
    Code("down.unconfirmed", Kind.USAGE, "The command would remove the embedded database.", "Confirm with `--yes`."),
    Code("error.not_found", Kind.NOT_FOUND, "There is no such code.", "See all codes at /errors; a plugin can add its own."),
    Code("expression.failed", Kind.TASK, "An expression of the workflow could not be evaluated on the job's values.", "Fix the expression, or its input values."),
    Code("fan_in.missing", Kind.TASK, "A result lacks the field that a fan-in aggregates.", "Return the field from the handler, or aggregate another field."),
    Code("fan_in.type", Kind.TASK, "The results can't be aggregated as the fan-in says.", "Choose another aggregation, or fix the handler's result."),
    Code("file.gone", Kind.GONE, "The item of a published file was withdrawn, or replaced so long ago that the file was removed; or the file was cataloged where it lies, and others have replaced it.", "Follow `replaced_by` if the problem has it: the item as it is now."),
    Code("file.lost", Kind.INTERNAL, "A published file is gone from its tier, or has another size.", "Restore the tier, or submit the source again with `--rerun`."),
    Code("file.not_found", Kind.NOT_FOUND, "There is no such file on this machine.", "Name an existing file."),
    Code("file.not_published", Kind.NOT_FOUND, "There is no published file of this name.", "The assets of the items at /stac list the published files."),
    Code("file.range", Kind.INVALID, "The range lies outside the file.", "Request a range within it; `Content-Range` has its size.", 416),
    Code("file.unreadable", Kind.INVALID, "The file can't be read.", "Name a file that you may read.", LOCAL),
    Code("file.unwritable", Kind.INVALID, "The file can't be written.", "Name another file, or make room for it.", LOCAL),
    Code("files.failed", Kind.TASK, "Jobs of some files did not complete.", "`anabranch status JOB` says why, and what to do; submit the same again to run what failed.", LOCAL),
    Code("files.refused", Kind.INVALID, "Some files of a folder or a pattern were refused.", "Fix them, or leave them out with a pattern like '@scenes/*.tif', and submit the same again; files that have a job keep it.", LOCAL),
    Code("gate.answer", Kind.INVALID, "The signal is not the answer that the gate declares; the gate goes on waiting.", "Send the fields that the gate takes; `anabranch status` shows the command."),
    Code("gate.ended", Kind.CONFLICT, "The gate no longer waits: its job has ended, or took another branch.", "See `anabranch events`."),
    Code("gate.not_found", Kind.NOT_FOUND, "The job has no such gate.", "See its nodes with `anabranch status`."),
    Code("gate.other", Kind.CONFLICT, "The gate was already signalled with a different payload.", "The first signal counts; see `anabranch events`."),
    Code("gate.timed_out", Kind.TASK, "Nobody signalled a gate in time.", "Signal it sooner, or give it a longer `timeout_seconds`; retry the job from the gate."),
    Code("handler.contract", Kind.TASK, "A handler or planner broke its contract, which is a bug in it.", "Fix the handler; the task is never retried."),
    Code("handler.crashed", Kind.TASK_AGAIN, "The process that ran the handler died.", "See its output with `anabranch logs`; give it more memory or less work."),
    Code("handler.error", Kind.TASK, "The handler failed.", "See the message, and its output with `anabranch logs`; declare a `retry` if another attempt may help."),
    Code("handler.exited", Kind.TASK, "The handler tried to end its process: it called sys.exit, or raised an exception such as KeyboardInterrupt.", "Return a result, or raise an error that says what is wrong."),
    Code("handler.loading", Kind.TASK_AGAIN, "The plugins took too long to load in the handler's process.", "Make importing them cheaper."),
    Code("handler.missing", Kind.UNAVAILABLE, "No plugin of this worker provides the handler.", "Install the plugin where the workers run, or name it in ANABRANCH_PLUGINS.", LOCAL),
    Code("handler.output", Kind.TASK, "The handler printed too much.", "Print less; write large output to `ctx.scratch`."),
    Code("handler.parameters", Kind.TASK, "The parameters do not match the handler's model.", "Fix the workflow's `params`, or the handler's model."),
    Code("handler.permanent", Kind.TASK, "The handler failed, and a retry can't help.", "See the message, and its output with `anabranch logs`."),
    Code("handler.resource", Kind.TASK_AGAIN, "Memory, disk or time ran out for the handler.", "Give it more, or less work; `anabranch doctor` checks the disk."),
    Code("handler.signature", Kind.DEFINITION, "A handler's parameters are ambiguous.", "Annotate them as the page on handlers describes."),
    Code("handler.throttled", Kind.TASK_AGAIN, "An external service asked the handler to slow down.", "Lower the node's `concurrency`, or run it again later."),
    Code("handler.transient", Kind.TASK_AGAIN, "The handler failed with a temporary error.", "Run the job again; raise `retry.max_attempts` if it happens often."),
    Code("handler.unsupported", Kind.DEFINITION, "A handler is declared in a way that can't work.", "Fix its declaration as the message says."),
    Code("home.copied", Kind.CONFLICT, "The home is a copy of one whose stack runs.", "Use the original, or stop its stack first.", LOCAL),
    Code("home.restoring", Kind.CONFLICT, "A restore into the home was interrupted.", "Run the same `anabranch restore` again.", LOCAL),
    Code("home.unusable", Kind.INVALID, "The data folder can't be used.", "Set ANABRANCH_HOME to a folder that you own.", LOCAL),
    Code("idempotency.conflict", Kind.CONFLICT, "The `Idempotency-Key` was used before, for another request.", "Use a new key for a new request; a repeated request must be the same."),
    Code("idempotency.key", Kind.INVALID, "The `Idempotency-Key` is not one line of 1 to 255 printable ASCII characters.", "Send a fresh UUID for each new request, and the same one when you repeat it."),
    Code("internal", Kind.INTERNAL, "Something went wrong inside Anabranch.", "It is a bug in Anabranch: report it, with the log lines that have the correlation id."),
    Code("item.not_found", Kind.NOT_FOUND, "There is no such published item, or no such collection.", "List them with `anabranch items list`, or at /stac/collections and /stac/search."),
    Code("item.withdrawn", Kind.GONE, "The item was withdrawn.", "Restore it with `anabranch items restore`, or publish it again."),
    Code("items.unconfirmed", Kind.USAGE, "The command would take something away from readers.", "Look at it with `--dry-run`, and confirm with `--yes`."),
    Code("items.version", Kind.INVALID, "The filter by version can't be used.", "Give a handler with `made_by`, and a version like 2 or 1.4.0."),
    Code("job.ambiguous", Kind.CONFLICT, "Several job ids begin with this prefix.", "Give more characters of the id."),
    Code("job.busy", Kind.UNAVAILABLE, "The job kept changing during the operation, or a task that publishes held it.", "Try again."),
    Code("job.cancelled", Kind.TASK, "The job was cancelled.", "Submit it again if that was a mistake."),
    Code("job.ended", Kind.CONFLICT, "The job has already ended.", "See it with `anabranch status`; submit it again for another run."),
    Code("job.failed", Kind.TASK, "The job failed, and nothing more is known.", "See `anabranch events` and `anabranch logs`."),
    Code("job.not_found", Kind.NOT_FOUND, "There is no such job.", "List them with `anabranch jobs`."),
    Code("job.out_of_sight", Kind.UNAVAILABLE, "The API was unavailable while a command waited for a job; unless it was purged, the job is kept and continues while a stack is up.", "Start the stack with `anabranch up`, or find the problem with `anabranch doctor`; then see the job with `anabranch status`.", LOCAL),
    Code("job.parameters", Kind.INVALID, "The parameters do not match the workflow's inputs.", "See its inputs with `anabranch workflows show`."),
    Code("job.purged", Kind.NOT_FOUND, "The job existed and was purged.", "Submit it again for a new job; `retention_days` sets how long jobs are kept.", 410),
    Code("job.timed_out", Kind.TIMED_OUT, "The job had not ended when the timeout expired.", "It continues; wait again, see it with `anabranch status`, or cancel it with `anabranch cancel`."),
    Code("key.invalid", Kind.INVALID, "The name, platform or lifetime of a key is invalid.", "Fix what the message names."),
    Code("key.not_found", Kind.NOT_FOUND, "There is no such key.", "List them with `anabranch keys list`."),
    Code("limit.not_found", Kind.NOT_FOUND, "There is no such limit.", "List them with `anabranch limits list`."),
    Code("manifest.differs", Kind.CONFLICT, "A published file is not what its signed manifest says.", "Publish it again from its source, and find out who changed it.", LOCAL),
    Code("manifest.key", Kind.INVALID, "A public key can't be read.", "Give the list that `anabranch signing-keys list --json` prints, or a PEM file.", LOCAL),
    Code("manifest.not_found", Kind.NOT_FOUND, "The item has no manifest: an earlier release published it.", "Publish it again."),
    Code("manifest.signature", Kind.CONFLICT, "The signature of a manifest does not fit: it was changed.", "Get it again; if that does not help, find out who changed it.", LOCAL),
    Code("manifest.unknown_key", Kind.CONFLICT, "A manifest is signed by a key that is not known.", "Add its public key if you trust it.", LOCAL),
    Code("manifest.unreadable", Kind.INVALID, "This is not a manifest.", "Give what `anabranch items manifest` prints.", LOCAL),
    Code("name.invalid", Kind.INVALID, "The value is not a valid name.", "Give a name that is not only dots and has no slash.", LOCAL),
    Code("node.count", Kind.INVALID, "The parameter that sets a node's number of tasks is not a valid number.", "Give an integer from 0 to 1,000,000."),
    Code("node.not_found", Kind.NOT_FOUND, "The job has no such node.", "See its nodes with `anabranch status`."),
    Code("oidc.issuer", Kind.UNAVAILABLE, "The keys of the issuer of tokens can't be fetched or used.", "Check ANABRANCH_OIDC__ISSUER, and that this machine reaches the issuer.", LOCAL),
    Code("outbound.address", Kind.UNAVAILABLE, "The host to call has an address that is not public.", "Give a public host; the operator can allow it by ANABRANCH_CALLBACK_HOSTS.", LOCAL),
    Code("outbound.failed", Kind.UNAVAILABLE, "A host could not be called, or its answer is not HTTP.", "Check the host; it is called again.", LOCAL),
    Code("outbound.timeout", Kind.UNAVAILABLE, "A host did not answer in time.", "Check the host; it is called again.", LOCAL),
    Code("outbound.url", Kind.INVALID, "The URL can't be called.", "Give a public one like https://example.org/hook."),
    Code("output.unwritable", Kind.INVALID, "The file can't be written.", "Name another.", LOCAL),
    Code("page.cursor", Kind.INVALID, "The value is not a page cursor.", "Use the `next` of the previous page."),
    Code("parameters.invalid", Kind.INVALID, "The parameters on the command line can't be read.", "Write `-p KEY=VALUE`, or give a JSON object with `--params`.", LOCAL),
    Code("parameters.unreadable", Kind.INVALID, "The parameters file can't be read.", "Name a file that you may read.", LOCAL),
    Code("platform.changed", Kind.CONFLICT, "The platform was changed while the order was accepted.", "Send the order again."),
    Code("platform.data_type", Kind.INVALID, "The type of the data is not known.", "Set `data_type`, and a workflow for it on the platform."),
    Code("platform.exists", Kind.CONFLICT, "The references of a platform with assets can't change, because their ids depend on them.", "Make another platform."),
    Code("platform.full", Kind.CONFLICT, "The platform has as many unresolved releases as it may have.", "Approve or reject some, or raise its `max_unresolved`."),
    Code("platform.no_gate", Kind.INVALID, "An approval is asked for, and the workflow has no input `approval`.", "Use a workflow that waits for an approval."),
    Code("platform.not_found", Kind.NOT_FOUND, "There is no such platform.", "List them with `anabranch platforms list`, over HTTP `GET /api/platforms`."),
    Code("platform.options", Kind.INVALID, "The options of an order have inputs that the order or its release decides.", "Remove them; references, source, title and approval are fields of the order."),
    Code("platform.references", Kind.INVALID, "References of the platform are missing or unknown.", "Send the references that the platform declares."),
    Code("platform.retired", Kind.CONFLICT, "The platform is retired: it takes no more orders and jobs.", "The operator makes it take orders again with `anabranch platforms save`."),
    Code("platform.translator", Kind.NOT_FOUND, "The platform has no request shape of its own.", "Send the order to /api/platform/submit."),
    Code("platform.workflow", Kind.INVALID, "A workflow of the platform does not exist, or does not take what orders give.", "Name a workflow with the inputs `source`, `collection` and `item_id`."),
    Code("plugin.invalid", Kind.DEFINITION, "A plugin declares something that can't be used.", "Fix the plugin as the message says."),
    Code("plugin.missing", Kind.DEFINITION, "A plugin can't be found.", "Install it, or fix ANABRANCH_PLUGINS."),
    Code("plugin.refused", Kind.DEFINITION, "A plugin that the settings name can't be loaded.", "Fix the plugin, or ANABRANCH_PLUGINS."),
    Code("preview.item", Kind.NOT_FOUND, "The job would publish no such item, or it has no features.", "Its items are at `/api/jobs/{job_id}/preview`."),
    Code("preview.not_found", Kind.NOT_FOUND, "The job or release does not wait for a review: it is not processed yet, or it was decided.", "List what waits with `anabranch approvals list`; what is published is at /stac."),
    Code("publication.release", Kind.CONFLICT, "The item belongs to a release of a platform, which decides what it shows.", "Submit an order for the release, or roll it back: `anabranch releases rollback`."),
    Code("publication.unapproved", Kind.CONFLICT, "The platform publishes nothing that was not approved.", "Order a release, or submit the job with `approval` and let somebody approve it: another person than its submitter, where the platform wants one."),
    Code("quota.bytes", Kind.THROTTLED, "The key's platform has reached the daily upload limit.", "Wait as long as `Retry-After` says, or raise ANABRANCH_PLATFORM_UPLOAD_MB_PER_DAY."),
    Code("quota.jobs", Kind.THROTTLED, "The key's platform has reached the daily limit of jobs.", "Wait as long as `Retry-After` says, or raise ANABRANCH_PLATFORM_JOBS_PER_DAY."),
    Code("release.approved", Kind.CONFLICT, "The release is approved and being served.", "Revoke it first, or set `reprocess`: the next revision is reviewed while this one goes on being served."),
    Code("release.clearance", Kind.CONFLICT, "An order can't let more people read a release that exists.", "Use `anabranch releases clear`."),
    Code("release.decided", Kind.CONFLICT, "The release was decided otherwise before.", "Look at it with `anabranch releases show`."),
    Code("release.decides", Kind.CONFLICT, "The job belongs to a release, which decides about it.", "Approve or reject the release, or submit it again: `anabranch releases`."),
    Code("release.exists", Kind.CONFLICT, "The release was submitted before with other content or options.", "Set `overwrite`, or `reprocess` if it is approved, or send another version."),
    Code("release.moved", Kind.CONFLICT, "The release has another revision than the one that was reviewed.", "Look at it with `anabranch releases show`, and decide again."),
    Code("release.not_approved", Kind.CONFLICT, "The release is not approved.", "Look at it with `anabranch releases show`."),
    Code("release.not_completed", Kind.CONFLICT, "The processing of the release is not completed.", "Wait for it, or submit it again if it failed: `anabranch releases show`, `anabranch releases resubmit`."),
    Code("release.not_found", Kind.NOT_FOUND, "There is no such release, asset, request or job.", "List them with `anabranch releases list`, over HTTP `GET /api/platform/releases`."),
    Code("release.own", Kind.NOT_ALLOWED, "The platform asks for another approver than the submitter.", "Ask somebody else to approve it."),
    Code("release.processing", Kind.CONFLICT, "The release is being processed.", "Wait for it, or set `overwrite` to begin again."),
    Code("release.reason", Kind.INVALID, "A reason is needed.", "Send `reason`; commands take `--reason TEXT`."),
    Code("release.timed_out", Kind.TIMED_OUT, "The release was not processed when the timeout expired.", "It continues; wait again, or see it with `anabranch releases show`."),
    Code("release.unresolved", Kind.CONFLICT, "Another release of the asset is being processed or reviewed.", "Wait until it is processed, and approve or reject it: `anabranch approvals list`, over HTTP `GET /api/approvals`."),
    Code("replay.choice", Kind.INVALID, "No dead letters were selected for the replay.", "Name jobs, a workflow, a handler or a code."),
    Code("replay.incomplete", Kind.CONFLICT, "Some of the jobs were not replayed.", "The table says why; see `anabranch status JOB`."),
    Code("request.framing", Kind.INVALID, "The request has both a Content-Length and a Transfer-Encoding.", "Send one of them.", 400),
    Code("request.host", Kind.NOT_ALLOWED, "The Host header is not an allowed name of the API.", "Call it as 127.0.0.1, localhost or [::1], or allow the name with ANABRANCH_PUBLIC_URL or ANABRANCH_ALLOWED_HOSTS."),
    Code("request.invalid", Kind.INVALID, "The request does not match the schema of its route.", "The routes and their parameters are described at /openapi.json."),
    Code("request.json", Kind.INVALID, "The body is not JSON that can be stored, or not an object.", "Send one JSON object."),
    Code("request.malformed", Kind.INVALID, "The request is not HTTP/1.1, or its head is too long.", "Send it with an HTTP client.", 400),
    Code("request.media_type", Kind.INVALID, "The route does not accept the body's media type.", "Send it as application/json, or a workflow as application/yaml.", 415),
    Code("request.method", Kind.INVALID, "The path does not support this method.", "Use one that the `Allow` header names.", 405),
    Code("request.origin", Kind.NOT_ALLOWED, "The call comes from a page of another origin.", "Call the API from its own pages, or outside a browser; ANABRANCH_CORS_ORIGINS lets other pages read the catalog, tiles and files."),
    Code("request.rate", Kind.THROTTLED, "The key or the address sends too many requests.", "Wait as long as `Retry-After` says."),
    Code("request.route", Kind.NOT_FOUND, "There is no such path.", "The routes are described at /openapi.json."),
    Code("request.timeout", Kind.UNAVAILABLE, "The request did not arrive completely in time.", "Send it again, faster.", 408),
    Code("request.too_large", Kind.INVALID, "The body is larger than the limit.", "Send less, or raise ANABRANCH_MAX_BODY_BYTES.", 413),
    Code("request.unconfirmed", Kind.INVALID, "The operation needs a confirmation.", "Add `?confirm=yes`."),
    Code("resource.cpu", Kind.TASK_AGAIN, "Processing a file took more CPU time than allowed.", "Check whether the file is valid; raise the limit if it is."),
    Code("resource.disk", Kind.TASK_AGAIN, "The disk is full, or a file exceeded its size limit.", "Free disk space, or raise the limit."),
    Code("resource.memory", Kind.TASK_AGAIN, "Processing a file took more memory than allowed.", "Raise the memory limit, or send a smaller file."),
    Code("restore.interrupted", Kind.UNAVAILABLE, "The connection by which a restore kept processes from the database was lost.", "Stop what has started meanwhile, and run the same `anabranch restore` again.", LOCAL),
    Code("restore.not_empty", Kind.CONFLICT, "The home, a tier or the database to restore into is not empty.", "Set ANABRANCH_HOME to a new folder, or name the home with `--overwrite`.", LOCAL),
    Code("restore.other_home", Kind.USAGE, "`--overwrite` does not name the home that ANABRANCH_HOME sets.", "Name the home that is to be overwritten."),
    Code("results.dismissed", Kind.NOT_FOUND, "The job was cancelled, so it has no results.", "Execute the process again.", 410),
    Code("results.failed", Kind.INTERNAL, "The job failed, so it has no results.", "Its status and `anabranch status` say why; fix the cause and execute the process again."),
    Code("results.not_ready", Kind.UNAVAILABLE, "The job has not ended, so it has no results yet.", "Ask again when its status is `successful`.", 404),
    Code("retry.child", Kind.CONFLICT, "The job was run by another job.", "Retry that one: its `parent`."),
    Code("retry.choice", Kind.INVALID, "A retry is either of the failed tasks of some nodes, or from a whole node on.", "Give one of the two."),
    Code("retry.nothing_failed", Kind.CONFLICT, "No failed task can be retried.", "Name the node to run from: `--from NODE`, over HTTP `from_node`."),
    Code("retry.older", Kind.CONFLICT, "A newer job exists for the same parameters.", "Retry the newest, or submit it again."),
    Code("retry.open", Kind.CONFLICT, "The job has not ended.", "Cancel it first, or wait for its end."),
    Code("sandbox.answer", Kind.TASK, "The metadata of a file is too large, or the process that read it returned an invalid answer.", "Check whether the file is valid."),
    Code("sandbox.unavailable", Kind.TASK_AGAIN, "The process that opens files did not start, or died.", "See the worker's log; `anabranch doctor` checks the machine."),
    Code("schedule.backfill", Kind.INVALID, "The range of a backfill has more ticks than its limit.", "Choose a shorter range, or raise the limit."),
    Code("schedule.broken", Kind.CONFLICT, "The schedule can't have jobs.", "Look at it with `anabranch schedules show`; its `error` says why."),
    Code("schedule.changed", Kind.CONFLICT, "The schedule was changed by somebody else meanwhile.", "Look at it and try again."),
    Code("schedule.exists", Kind.CONFLICT, "The platform has a schedule of this name.", "Choose another name, or change the schedule."),
    Code("schedule.not_found", Kind.NOT_FOUND, "There is no such schedule.", "List them with `anabranch schedules list`."),
    Code("schedule.of_workflow", Kind.CONFLICT, "The schedule is declared by the file of its workflow.", "Change the file; pausing needs no change of it."),
    Code("schedule.retired", Kind.CONFLICT, "The workflow's file declares no schedule any more.", "Add a schedule to the file, or one of your own."),
    Code("schedule.too_many", Kind.CONFLICT, "The platform has as many schedules as it may have.", "Remove one that nobody needs."),
    Code("schedule.watches", Kind.CONFLICT, "The schedule watches a folder: it has no ticks to run by hand or to backfill.", "Submit a job of its workflow for one object by `anabranch submit`."),
    Code("session.gone", Kind.UNAVAILABLE, "The process's session expired; it starts a new one.", "Try again in a second."),
    Code("settings.invalid", Kind.INVALID, "A setting is wrong.", "Fix the variables or the file; `anabranch config show` lists the settings.", LOCAL),
    Code("signing_key.unusable", Kind.UNAVAILABLE, "The key that signs manifests can't be used.", "Check the file that ANABRANCH_SIGNING_KEY names, or `signing-key.pem` in the home."),
    Code("source.changed", Kind.TASK, "A source was replaced after the job had checked it.", "Submit it again."),
    Code("stack.bad_address", Kind.INVALID, "The API can't listen on this address.", "Fix ANABRANCH_HOST and ANABRANCH_PORT, or `--host` and `--port` of `up`.", LOCAL),
    Code("stack.down", Kind.UNAVAILABLE, "Nothing runs in the home.", "Start it with `anabranch up --detach`.", LOCAL),
    Code("stack.failed", Kind.UNAVAILABLE, "The stack did not start.", "Fix what its last lines report; the full log is `logs/supervisor.log` in the home.", LOCAL),
    Code("stack.not_ready", Kind.UNAVAILABLE, "The stack was not ready in time.", "See the logs in the home.", LOCAL),
    Code("stack.port_taken", Kind.CONFLICT, "Another process has the API's port.", "Stop it, or choose another with `--port`.", LOCAL),
    Code("stack.running", Kind.CONFLICT, "A stack is already running in the home.", "Use it, stop it with `anabranch down`, or set ANABRANCH_HOME to another folder.", LOCAL),
    Code("stack.starting", Kind.UNAVAILABLE, "The stack is still starting.", "Try again in a second.", LOCAL),
    Code("storage.address", Kind.INVALID, "The value is not a storage address.", "Write tier://path, like bronze://uploads/dem.tif."),
    Code("storage.changed", Kind.CONFLICT, "An object changed while it was read or written.", "Wait until the writer is done, and try again."),
    Code("storage.checksum", Kind.CONFLICT, "An object's SHA-256 differs from the expected one.", "Check whether it was replaced."),
    Code("storage.container", Kind.UNAVAILABLE, "The container of a tier does not exist.", "Create it, or fix the tier's URL."),
    Code("storage.denied", Kind.NOT_ALLOWED, "A tier's store denied the operation.", "Check the credentials in the storage options, or the permissions of the folder.", 503),
    Code("storage.exists", Kind.CONFLICT, "An object with this key already exists.", "Choose another name, or replace it with `--overwrite`."),
    Code("storage.full", Kind.UNAVAILABLE, "There is no space left for the file.", "Free space in the tier's store."),
    Code("storage.lost", Kind.CONFLICT, "Objects that are published are gone or damaged.", "Restore them from a backup, or publish their sources again with `--rerun`.", LOCAL),
    Code("storage.not_copied", Kind.CONFLICT, "Some objects of a folder were not copied.", "Copy again with `--overwrite` to replace what exists, or fix what is reported.", LOCAL),
    Code("storage.not_found", Kind.NOT_FOUND, "There is no such object.", "Send the file first, or fix the address; `anabranch storage ls` lists what there is."),
    Code("storage.not_installed", Kind.UNAVAILABLE, "A tier is in cloud storage, and the package for it is not installed.", "Install anabranch[storage]."),
    Code("storage.not_readable", Kind.INVALID, "The job may not read the object: it is neither an output of its job, nor among the uploads, folders and published files of its platform.", "Upload it with a key of the platform, or let the operator add its folder to the platform's `sources`."),
    Code("storage.not_shared", Kind.CONFLICT, "A tier or the work area is not the store that the other processes of the database use.", "Set the same `ANABRANCH_STORAGE__…` on every machine, or adopt the new store with `anabranch storage adopt --yes`.", LOCAL),
    Code("storage.options", Kind.INVALID, "A tier can't be opened with its options.", "Fix ANABRANCH_STORAGE__OPTIONS.", LOCAL),
    Code("storage.order", Kind.CONFLICT, "The store lists its objects in another order than that of their keys.", "A schedule can't watch it; use a store that lists in order."),
    Code("storage.path", Kind.INVALID, "The path is not valid for an object.", "Write it as it is listed."),
    Code("storage.published", Kind.CONFLICT, "A published item uses this object.", "Keep it, or copy to another address; the item would be broken.", LOCAL),
    Code("storage.tier", Kind.NOT_FOUND, "There is no tier of this name.", "The tiers are bronze, silver and gold."),
    Code("storage.too_many", Kind.TASK, "A folder has more files than one job compares.", "Synchronize its subfolders, one after the other."),
    Code("storage.unconfirmed", Kind.USAGE, "The command would remove objects.", "Confirm with `--yes`."),
    Code("storage.unreachable", Kind.UNAVAILABLE, "A tier's store does not answer.", "Check that it is up, or fix the tier's URL and options."),
    Code("storage.unwritable", Kind.UNAVAILABLE, "The file can't be written.", "Check that the bronze tier, or the target folder, is writable."),
    Code("stream.too_many", Kind.UNAVAILABLE, "The process has reached its limit of open streams.", "Try again, ask for the job's status instead, or raise ANABRANCH_MAX_STREAMS."),
    Code("task.checkpoint_refused", Kind.TASK_AGAIN, "A checkpoint could not be stored.", "See the message; a checkpoint is JSON of at most 64 kB."),
    Code("task.failed", Kind.TASK, "A task failed, and nothing more is known.", "See its output with `anabranch logs`."),
    Code("task.lost", Kind.TASK, "The task was cancelled, or was reassigned to another worker.", "Nothing: another attempt counts."),
    Code("task.no_predecessor", Kind.TASK, "The previous stage has no task with the same index.", "Declare uses_lineage on the stage, and give both stages the same indexes."),
    Code("task.queue_timeout", Kind.TASK_AGAIN, "No worker took the task in the time that its node allows.", "Start a worker that serves the queue, or raise `queue_timeout_seconds`."),
    Code("task.result_too_large", Kind.TASK, "The handler's result is larger than the limit.", "Write it to storage, and return its address."),
    Code("task.silent", Kind.TASK_AGAIN, "The handler reported no progress for longer than its heartbeat timeout.", "Call `ctx.progress` more often, or raise `heartbeat_timeout_seconds`."),
    Code("task.timed_out", Kind.TASK_AGAIN, "The handler ran longer than its timeout.", "Raise `timeout_seconds`, or give it less work."),
    Code("task.total_timeout", Kind.TASK, "All attempts together took longer than the task's total timeout.", "Raise `total_timeout_seconds`."),
    Code("task.unstorable", Kind.TASK, "The database refused the handler's result.", "Fix what the handler returns."),
    Code("unknown", Kind.TASK, "A failure was stored without a code.", "See its message."),
    Code("upgrade.incompatible", Kind.CONFLICT, "Processes run that can't use the database once it is upgraded.", "Stop them first, or upgrade by a version between.", LOCAL),
    Code("upload.checksum", Kind.INVALID, "The SHA-256 of the received file differs from the one sent with it.", "Send it again."),
    Code("upload.incomplete", Kind.CONFLICT, "Parts of the file are missing.", "Send the missing parts, then complete it again."),
    Code("upload.name", Kind.INVALID, "The file name is invalid.", "Use another name, like dem.tif."),
    Code("upload.part", Kind.INVALID, "A part of a file is too large.", "Send parts of the size that the API names.", 413),
    Code("upload.too_large", Kind.INVALID, "The file is larger than the limit.", "Raise ANABRANCH_MAX_UPLOAD_BYTES, or send less.", 413),
    Code("upload.unreadable", Kind.INVALID, "The file to upload can't be read.", "Name an existing file that you may read.", LOCAL),
    Code("usage", Kind.USAGE, "The command was called with wrong arguments.", "See its `--help`."),
    Code("webhook.delivery_not_found", Kind.NOT_FOUND, "There is no such delivery.", "List them with `anabranch webhooks deliveries`; old ones are removed."),
    Code("webhook.inactive", Kind.CONFLICT, "The endpoint is not active.", "Activate it first: `anabranch webhooks change ENDPOINT --active`, over HTTP `PATCH /api/webhooks/{endpoint_id}` with `{\"active\": true}`."),
    Code("webhook.key", Kind.UNAVAILABLE, "The key that seals the secrets of webhooks can't be used.", "Give all processes the same ANABRANCH_WEBHOOK_KEY, readable and writable by their user."),
    Code("webhook.not_found", Kind.NOT_FOUND, "There is no such endpoint.", "List them with `anabranch webhooks list`."),
    Code("webhook.port", Kind.UNAVAILABLE, "The port of a local receiver can't be used.", "Choose another with --port.", LOCAL),
    Code("webhook.secret", Kind.INVALID, "The secret of a webhook can't be read.", "Give base64 after whsec_, or a text of 16 to 256 characters."),
    Code("webhook.signature", Kind.INVALID, "A webhook was not signed with the given secret, or is too old.", "Refuse it; check that the secret is that of the endpoint.", LOCAL),
    Code("webhook.too_many", Kind.CONFLICT, "The platform has as many endpoints as it may have.", "Remove one that nobody needs, or give jobs callbacks of their own."),
    Code("webhook.undelivered", Kind.UNAVAILABLE, "The test of an endpoint failed.", "Look at the error; the delivery is tried again.", LOCAL),
    Code("webhook.untried", Kind.UNAVAILABLE, "A test message was not sent in time.", "Check that an orchestrator runs.", LOCAL),
    Code("work.lost", Kind.NOT_FOUND, "A work file of an earlier task is gone, or is damaged.", "Submit the job again with `--rerun`."),
    Code("worker.died", Kind.TASK_AGAIN, "The worker that ran the task died.", "The task is retried, up to five times alone on a worker; check the worker's log and memory."),
    Code("worker.exhausted", Kind.UNAVAILABLE, "The worker has no descriptors, threads, memory or disk space left for its own work.", "Raise its limits (`ulimit -n`) or free disk space; its tasks are returned without counting an attempt, and it recovers by itself.", LOCAL),
    Code("worker.no_children", Kind.UNAVAILABLE, "The fork server that starts handler processes dies immediately.", "See the worker's log and the system log for the cause: memory, or a plugin that ends its process on import.", LOCAL),
    Code("worker.not_found", Kind.NOT_FOUND, "There is no such live session.", "List them with `anabranch workers`."),
    Code("workflow.definition_missing", Kind.NOT_FOUND, "The definition that a job was pinned to is missing.", "Restore the database: definitions are never removed while jobs need them."),
    Code("workflow.input", Kind.DEFINITION, "An input of a workflow is declared wrongly.", "Fix the declaration; `anabranch workflows validate` shows its location."),
    Code("workflow.invalid", Kind.DEFINITION, "A workflow is wrong.", "Fix it; `anabranch workflows validate` lists every mistake."),
    Code("workflow.not_found", Kind.NOT_FOUND, "There is no such workflow.", "List them with `anabranch workflows list`."),
    Code("workflow.stages", Kind.INVALID, "A workflow that a class with stages declares has no YAML.", "Only workflows in YAML and workflow functions can be shown as YAML."),
    Code("workflow.unreadable", Kind.UNAVAILABLE, "The definition of a workflow can't be read.", "Upgrade this process: a later release wrote it."),
)
# fmt: on

_OURS = {code.code: code for code in CODES}


def all_codes() -> tuple[Code, ...]:
    """Every code, ours and those that installed packages bring, sorted."""
    return tuple(sorted((_brought() | _OURS).values(), key=lambda code: code.code))


def find_code(code: str) -> Code | None:
    """The entry of a code; None for one that no installed package lists."""
    return _OURS.get(code) or _brought().get(code)


@cache
def _brought() -> dict[str, Code]:
    lists = [codes for _, codes in load_entry_points(CODE_GROUP) if isinstance(codes, tuple)]
    return {code.code: code for codes in lists for code in codes}


def code_of(error: AnabranchError) -> Code:
    """The entry of an error's code; a code that no list has is of the kind of the error's class."""
    return find_code(error.code) or Code(error.code, error.kind, "", error.remedy)


def find_remedy(code: str, own: str | None) -> str:
    """What to do about an error: what it says itself, or else what its code says."""
    known = find_code(code)
    return own or (known.remedy if known else "")


def with_remedy(error: Mapping[str, Any], *, of_release: bool = False) -> dict[str, Any]:  # a failure as it is stored
    """A stored failure with what to do about it; the gate of a release is not signalled, but decided, and its job
    is submitted again by it."""
    code = str(error.get("code"))
    remedy = RELEASE_REMEDIES.get(code) if of_release else None
    remedy = remedy or find_remedy(code, error.get("remedy"))
    cause = {"cause": with_remedy(error["cause"])} if error.get("cause") else {}
    return {**error, **({"remedy": remedy} if remedy else {}), **cause}


def status_of(error: AnabranchError) -> int:
    """The HTTP status of an error; 500 if only commands should report it."""
    return code_of(error).status or error.kind.status or 500
