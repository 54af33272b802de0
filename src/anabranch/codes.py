"""Every stable code of an error: what it means, what to do, and what HTTP and the command line make of it (O6)."""

from enum import Enum
from typing import NamedTuple

__all__ = ["CODES", "Code", "Kind", "find_code"]


class Kind(Enum):
    """What sort of error a code is: its HTTP status, its exit code, and whether the same may succeed later."""

    INVALID = (422, 5, False)
    DEFINITION = (None, 5, False)
    NOT_FOUND = (404, 3, False)
    CONFLICT = (409, 6, False)
    NOT_ALLOWED = (403, 4, False)
    UNAVAILABLE = (503, 9, True)
    USAGE = (None, 2, False)
    THROTTLED = (429, 9, True)
    TIMED_OUT = (None, 8, True)
    INTERNAL = (500, 1, False)
    TASK = (None, 7, False)
    TASK_AGAIN = (None, 7, True)

    def __init__(self, status: int | None, exit_code: int, retryable: bool) -> None:
        self.status = status
        self.exit_code = exit_code
        self.retryable = retryable


# The status of what only commands and clients tell.
LOCAL = 0


class Code(NamedTuple):
    """One code, in one line of the list below; a status of its own stands above its kind's."""

    code: str
    kind: Kind
    meaning: str
    remedy: str
    own_status: int | None = None

    @property
    def status(self) -> int | None:
        """The HTTP status, where a request can be answered with it."""
        return self.kind.status if self.own_status is None else self.own_status or None

    @property
    def exit_code(self) -> int:
        """What a command exits with."""
        return self.kind.exit_code

    @property
    def retryable(self) -> bool:
        """Whether the same may succeed later."""
        return self.kind.retryable


# Sorted by code; `make reference` writes docs/reference/errors.md from it.
# fmt: off
CODES: tuple[Code, ...] = (
    Code("api.broken_off", Kind.UNAVAILABLE, "The API answered fewer lines than it was sent.", "Send the rest again; what was made is found.", LOCAL),
    Code("api.connections", Kind.UNAVAILABLE, "The API holds as many connections as it may.", "Try again; close connections that are not used, or raise ANABRANCH_MAX_CONNECTIONS."),
    Code("api.memory", Kind.UNAVAILABLE, "The API has no memory left for this request.", "Ask for less, or try again; whoever runs it can raise ANABRANCH_API_MEMORY_MB."),
    Code("api.no_session", Kind.UNAVAILABLE, "The API has no session with the database.", "Try again; if it lasts, see the API's log and `anabranch doctor`."),
    Code("api.not_ready", Kind.UNAVAILABLE, "The API can't serve now; strangers are told no more.", "Try again; whoever runs it finds the cause by `anabranch doctor`."),
    Code("api.silent", Kind.UNAVAILABLE, "The API took a request, and did not answer in time.", "See which part hangs with `anabranch doctor`.", LOCAL),
    Code("api.stalled", Kind.UNAVAILABLE, "The API's event loop does not turn.", "Restart the API."),
    Code("api.starting", Kind.UNAVAILABLE, "The API has no session with the database yet.", "Try again in a second."),
    Code("api.stopping", Kind.UNAVAILABLE, "The API is about to end.", "Try again."),
    Code("api.unreachable", Kind.UNAVAILABLE, "Nothing answers at the API's address.", "Start it with `anabranch up`.", LOCAL),
    Code("api.unreadable", Kind.INTERNAL, "What answers at the API's address does not speak as the client expects.", "See that it is Anabranch, and of the same version.", LOCAL),
    Code("api.url", Kind.INVALID, "The address of the API that commands were given can't be used.", "Set ANABRANCH_API_URL to one that begins with http:// or https://.", LOCAL),
    Code("api.url_invalid", Kind.INVALID, "The address of the API can't be used.", "Give one that begins with http:// or https:// and names a host.", LOCAL),
    Code("asset.not_found", Kind.NOT_FOUND, "The item has no such raster.", "See the item's assets at /stac."),
    Code("asset.unreadable", Kind.INTERNAL, "A published raster can't be read.", "See the API's log; restore the file, or run the job again."),
    Code("auth.expired", Kind.NOT_ALLOWED, "The key has expired.", "Ask for another.", 401),
    Code("auth.forbidden", Kind.NOT_ALLOWED, "The key's scope does not include the one that is needed.", "Use a key with that scope."),
    Code("auth.invalid", Kind.NOT_ALLOWED, "What was sent is no key of this API.", "Send one as `Authorization: Bearer anb_…`; nobody is told which keys there are.", 401),
    Code("auth.misplaced", Kind.INVALID, "A key stands in the URL, in another header than `Authorization`, or in the body.", "Send it as `Authorization: Bearer anb_…` only; revoke it if others may have seen it."),
    Code("auth.missing", Kind.NOT_ALLOWED, "A key is needed, and none was sent.", "Send one as `Authorization: Bearer anb_…`.", 401),
    Code("auth.open_address", Kind.INVALID, "The API would listen beyond loopback without keys.", "Set ANABRANCH_AUTH to keys or leave it out, or listen on 127.0.0.1, ::1 or localhost.", LOCAL),
    Code("auth.revoked", Kind.NOT_ALLOWED, "The key was revoked.", "Ask for another.", 401),
    Code("auth.too_many", Kind.THROTTLED, "The address has sent too many wrong keys.", "Wait as long as `Retry-After` says; send a key that is right."),
    Code("auth.unavailable", Kind.UNAVAILABLE, "Keys can't be looked up now.", "Try again; whoever runs the API finds the cause by `anabranch doctor`."),
    Code("auth.unsendable", Kind.INVALID, "The key is empty, or has characters that no key has.", "Set ANABRANCH_API_KEY to what `anabranch keys create` printed.", LOCAL),
    Code("bench.died", Kind.UNAVAILABLE, "A process of the benchmark died.", "What it said last is in the message.", LOCAL),
    Code("bench.failed", Kind.INTERNAL, "A job of the benchmark failed.", "See the error of the job in the message.", LOCAL),
    Code("bench.no_peer", Kind.UNAVAILABLE, "The server that a benchmark compares with does not answer.", "Give a Python that has titiler.core and uvicorn.", LOCAL),
    Code("bench.no_wrk", Kind.UNAVAILABLE, "The program wrk is not installed.", "Run `sudo apt-get install wrk`.", LOCAL),
    Code("bench.not_ready", Kind.UNAVAILABLE, "The API of the benchmark was not ready in time.", "Run it on a machine that has less to do.", LOCAL),
    Code("bench.not_warm", Kind.UNAVAILABLE, "The workers of the benchmark did not begin in time.", "Run it on a machine that has less to do.", LOCAL),
    Code("bench.wrong", Kind.INTERNAL, "A benchmark gave a wrong result.", "Report it: its figures mean nothing.", LOCAL),
    Code("bulk.refused", Kind.INVALID, "Some of many jobs were refused.", "Mend the lines that are told and send them again.", LOCAL),
    Code("catalog.address", Kind.INVALID, "An asset of an item is no address of an object.", "Give the address that storage answered, like silver://path/of/the/object.tif."),
    Code("catalog.asset_twice", Kind.INVALID, "Two outputs of an item have the same asset.", "Give one of them an `asset` of its own."),
    Code("catalog.busy", Kind.TASK_AGAIN, "Others wrote or read the catalog for too long.", "It is tried again; publish many items in one task."),
    Code("catalog.collection_id", Kind.INVALID, "A collection can't have this id.", "Use letters, digits, `-`, `_` and single dots; at most 63 characters."),
    Code("catalog.differs", Kind.CONFLICT, "The catalog is not what is published.", "Make it anew with `anabranch db catalog rebuild --yes`.", LOCAL),
    Code("catalog.incomplete", Kind.UNAVAILABLE, "The catalog did not take all that is published.", "Nothing was changed; run `anabranch db catalog rebuild --yes` again.", LOCAL),
    Code("catalog.invalid", Kind.INVALID, "An item or collection is not valid STAC.", "Mend what it is made from; the message names each mistake with its place."),
    Code("catalog.item_id", Kind.INVALID, "An item can't have this id.", "Use letters, digits, `-`, `_` and single dots; at most 128 characters."),
    Code("catalog.item_twice", Kind.INVALID, "Two items of one publication have the same id.", "Give each item an id of its own."),
    Code("catalog.lost", Kind.TASK_AGAIN, "The catalog lost an item that it was given.", "Nothing was published; it is tried again."),
    Code("catalog.missing", Kind.UNAVAILABLE, "The database has no catalog.", "Run `anabranch db migrate`; it says what the server lacks."),
    Code("catalog.name_taken", Kind.CONFLICT, "Two outputs of a job would have the same name.", "Give the outputs a `name` of their own."),
    Code("catalog.no_collection", Kind.NOT_FOUND, "There is no such collection.", "Make it by `stac.ensure_collection`."),
    Code("catalog.other_collection", Kind.INVALID, "An item belongs to another collection than it was published to.", "Build it for the collection that it goes to."),
    Code("catalog.query", Kind.INVALID, "The catalog can't be asked this.", "Mend the search; what it takes is described at /stac/api.", 400),
    Code("catalog.refused", Kind.INVALID, "The catalog refused an item or a collection.", "Mend what it is made from; nothing was published."),
    Code("catalog.slow", Kind.UNAVAILABLE, "A search of the catalog took too long.", "Ask for a smaller area, time or page."),
    Code("catalog.unconfirmed", Kind.USAGE, "The command would empty the catalog before it fills it.", "Say so with `--yes`."),
    Code("catalog.unreachable", Kind.TASK_AGAIN, "The database broke off a publication.", "Nothing was published; it is tried again."),
    Code("child.cancelled", Kind.TASK, "The job that a task ran was cancelled.", "Retry the job that ran it."),
    Code("child.failed", Kind.TASK, "The job that a task ran failed.", "Look at that job with `anabranch status`; mend the cause, then retry the job that ran it."),
    Code("cluster.closed_folder", Kind.UNAVAILABLE, "The database server's user can't enter the data folder.", "Open the folders above it (chmod o+x), or set ANABRANCH_HOME to another folder.", LOCAL),
    Code("cluster.damaged", Kind.UNAVAILABLE, "The embedded database's folder holds no database.", "Restore it from a backup, or remove it with `anabranch down --purge --yes`.", LOCAL),
    Code("cluster.failed", Kind.UNAVAILABLE, "The embedded PostgreSQL did not start.", "Mend what its last lines say; the whole log is `logs/postgres.log` of the home.", LOCAL),
    Code("cluster.foreign", Kind.CONFLICT, "The home is a copy of another, and its database is that one's.", "Remove `cluster.json` in the copy to give it a new database.", LOCAL),
    Code("cluster.no_server", Kind.UNAVAILABLE, "No PostgreSQL server that is new enough is installed.", "Install it as the message says, or set ANABRANCH_DATABASE_URL to a server you have.", LOCAL),
    Code("cluster.no_user", Kind.UNAVAILABLE, "The server may not run as root, and there is no other user for it.", "Make the user that the message names.", LOCAL),
    Code("cluster.running", Kind.CONFLICT, "A server runs on the data folder already.", "Stop it with `anabranch down`.", LOCAL),
    Code("cluster.wrong_version", Kind.UNAVAILABLE, "The embedded database was made by another version of PostgreSQL.", "Install that version.", LOCAL),
    Code("database.age", Kind.USAGE, "What was given is no age of jobs.", "Write it like 30d, 12h or 45m."),
    Code("database.busy", Kind.CONFLICT, "A long transaction stood in the way of a migration.", "Run it again when the transaction has ended.", LOCAL),
    Code("database.connections", Kind.INVALID, "The stack would take more than half of the server's connections.", "Start fewer workers, or raise the server's max_connections.", LOCAL),
    Code("database.differs", Kind.CONFLICT, "The database differs from the files.", "`anabranch db redeploy` mends functions, views, triggers and grants; tables need a migration.", LOCAL),
    Code("database.in_use", Kind.CONFLICT, "Processes live on the database that was to be removed.", "Stop them with `anabranch down`; those that were killed count until their lease ends.", LOCAL),
    Code("database.interrupted", Kind.UNAVAILABLE, "The database could not finish a piece of work: it only reads now, an upgrade is under way, or it had too much to wait for.", "Try again."),
    Code("database.locked", Kind.CONFLICT, "Another migration works on the database.", "Wait until it has ended, and run this again.", LOCAL),
    Code("database.migration_changed", Kind.CONFLICT, "The file of a migration is not what was applied.", "Restore the file: what was released never changes.", LOCAL),
    Code("database.migration_missing", Kind.CONFLICT, "The file of an applied migration is gone.", "Restore the file.", LOCAL),
    Code("database.migration_skipped", Kind.CONFLICT, "The ledger lacks a migration that should have come before others.", "Restore the database from a backup, or mend the ledger.", LOCAL),
    Code("database.migrations_invalid", Kind.DEFINITION, "The files of the migrations have a gap, a number twice, or a wrong name.", "Mend the files."),
    Code("database.newer", Kind.CONFLICT, "The database was migrated by a later release.", "Upgrade Anabranch.", LOCAL),
    Code("database.not_allowed", Kind.NOT_ALLOWED, "The database's login user may not act as the owner, or make the roles.", "Let an administrator run the statements in the message, or call as the owner.", 403),
    Code("database.not_migrated", Kind.UNAVAILABLE, "The database has no schema of Anabranch, or not the one that is needed.", "Run `anabranch db migrate` with this database URL."),
    Code("database.refused", Kind.INTERNAL, "The database refused what it was given.", "It is a mistake of ours: report it, with the line of the log."),
    Code("database.schema_taken", Kind.CONFLICT, "The schema `app` belongs to something else.", "Use another database.", LOCAL),
    Code("database.silent", Kind.UNAVAILABLE, "The database takes what it is asked, and does not answer.", "See what is wrong with `anabranch doctor`; where the server hangs, start it anew. Then try again."),
    Code("database.sql_invalid", Kind.DEFINITION, "A file of SQL can't be deployed.", "Mend the file."),
    Code("database.too_old", Kind.UNAVAILABLE, "The server is older than PostgreSQL 15.", "Use a newer server.", LOCAL),
    Code("database.unconfirmed", Kind.USAGE, "The command would remove all jobs.", "Say so with `--yes`."),
    Code("database.unreachable", Kind.UNAVAILABLE, "PostgreSQL does not answer.", "Start the server, or fix ANABRANCH_DATABASE_URL; `anabranch doctor` looks at both."),
    Code("database.unsound", Kind.INTERNAL, "The engine's state breaks an invariant.", "It is a mistake of ours, or somebody changed rows by hand: report it with what `anabranch db audit` lists.", LOCAL),
    Code("database.url_invalid", Kind.INVALID, "The database URL can't be read.", "Write postgresql://user:password@host:port/name, and encode @ : / ? # % in the password.", LOCAL),
    Code("down.unconfirmed", Kind.USAGE, "The command would remove the embedded database.", "Say so with `--yes`."),
    Code("error.not_found", Kind.NOT_FOUND, "There is no such code.", "See all of them at /errors; a plugin has codes of its own."),
    Code("expression.failed", Kind.TASK, "An expression of the workflow could not be evaluated on the job's values.", "Mend the expression, or the values that it is given."),
    Code("fan_in.missing", Kind.TASK, "A result lacks the field that a fan-in aggregates.", "Let the handler return the field, or aggregate another."),
    Code("fan_in.type", Kind.TASK, "The results can't be aggregated as the fan-in says.", "Choose another aggregation, or mend the handler's result."),
    Code("file.lost", Kind.INTERNAL, "A published file is gone from its tier, or has another size.", "Restore the tier, or submit the source again with `--rerun`."),
    Code("file.not_found", Kind.NOT_FOUND, "There is no such file on this machine.", "Name one that is there."),
    Code("file.not_published", Kind.NOT_FOUND, "There is no published file of this name.", "The assets of items at /stac name them."),
    Code("file.range", Kind.INVALID, "The range lies outside the file.", "Ask for one within it; `Content-Range` tells its size.", 416),
    Code("file.unreadable", Kind.INVALID, "The file can't be read.", "Name a file that you may read.", LOCAL),
    Code("file.unwritable", Kind.INVALID, "The file can't be written.", "Name another file, or make room for it.", LOCAL),
    Code("gate.ended", Kind.CONFLICT, "The gate is over: its job has ended, or went another way.", "See `anabranch events`."),
    Code("gate.not_found", Kind.NOT_FOUND, "The job has no such gate.", "See its nodes with `anabranch status`."),
    Code("gate.other", Kind.CONFLICT, "The gate was told something else before.", "The first signal stands; see `anabranch events`."),
    Code("gate.timed_out", Kind.TASK, "Nobody signalled a gate in time.", "Signal it sooner, or give it a longer `timeout_seconds`; retry the job from the gate."),
    Code("handler.contract", Kind.TASK, "A handler or planner broke its contract, which is a bug in it.", "Mend the handler; it is never tried again."),
    Code("handler.crashed", Kind.TASK_AGAIN, "The process that ran the handler died.", "See what it printed with `anabranch logs`; give it more memory or less to do."),
    Code("handler.error", Kind.TASK, "The handler failed.", "See the message, and what it printed with `anabranch logs`; declare a `retry` where trying again may help."),
    Code("handler.exited", Kind.TASK, "The handler tried to end its process: it called sys.exit, or raised what only a process that ends raises.", "Return a result, or raise an error that says what is wrong."),
    Code("handler.loading", Kind.TASK_AGAIN, "The plugins took too long to load in the handler's process.", "Make importing them cheaper."),
    Code("handler.missing", Kind.UNAVAILABLE, "No plugin of this worker brings the handler.", "Install the plugin where the workers run, or name it in ANABRANCH_PLUGINS.", LOCAL),
    Code("handler.output", Kind.TASK, "The handler printed too much.", "Print less; write large output to `ctx.scratch`."),
    Code("handler.parameters", Kind.TASK, "The handler does not take the parameters that it was given.", "Mend the workflow's `params`, or the handler's model."),
    Code("handler.permanent", Kind.TASK, "The handler failed, and trying again can't help.", "See the message, and what it printed with `anabranch logs`."),
    Code("handler.resource", Kind.TASK_AGAIN, "Memory, disk or time ran out for the handler.", "Give it more, or less to do; see `anabranch doctor` for the disk."),
    Code("handler.signature", Kind.DEFINITION, "A handler's parameters can't be told apart.", "Annotate them as the page on handlers says."),
    Code("handler.throttled", Kind.TASK_AGAIN, "The other side asked the handler to slow down.", "Lower the node's `concurrency`, or run it again later."),
    Code("handler.transient", Kind.TASK_AGAIN, "The handler failed in a way that may pass.", "Run the job again; raise `retry.max_attempts` if it happens often."),
    Code("handler.unsupported", Kind.DEFINITION, "A handler is declared in a way that can't work.", "Mend its declaration as the message says."),
    Code("home.copied", Kind.CONFLICT, "The home is a copy of one whose stack runs.", "Use the original, or stop its stack first.", LOCAL),
    Code("home.unusable", Kind.INVALID, "The data folder can't be used.", "Set ANABRANCH_HOME to a folder that you own.", LOCAL),
    Code("idempotency.conflict", Kind.CONFLICT, "The `Idempotency-Key` was used before, for another request.", "Take a new key for a new request; one that is repeated must ask for the same."),
    Code("idempotency.key", Kind.INVALID, "The `Idempotency-Key` is not one line of 1 to 255 printable ASCII characters.", "Send a fresh UUID for each new request, and the same one when you repeat it."),
    Code("internal", Kind.INTERNAL, "Something went wrong inside Anabranch.", "It is a mistake of ours: report it, with the lines of the log that have the correlation id."),
    Code("item.not_found", Kind.NOT_FOUND, "The catalog has no such collection or item.", "Those that there are are listed at /stac/collections and /stac/search."),
    Code("job.ambiguous", Kind.CONFLICT, "Several jobs begin with this id.", "Give more of the id."),
    Code("job.busy", Kind.UNAVAILABLE, "The job changed again and again while it was to be changed, or a task held it that publishes.", "Try again."),
    Code("job.cancelled", Kind.TASK, "The job was cancelled.", "Submit it again if that was a mistake."),
    Code("job.ended", Kind.CONFLICT, "The job has ended already.", "Look at it with `anabranch status`; submit it again to run it anew."),
    Code("job.failed", Kind.TASK, "The job failed, and nothing more is known.", "See `anabranch events` and `anabranch logs`."),
    Code("job.not_found", Kind.NOT_FOUND, "There is no such job.", "List them with `anabranch jobs`."),
    Code("job.out_of_sight", Kind.UNAVAILABLE, "The API stayed away while a job was waited for; unless it was purged, the job is kept, and goes on while a stack is up.", "Start the stack with `anabranch up`, or see what hangs with `anabranch doctor`; then see the job with `anabranch status`.", LOCAL),
    Code("job.parameters", Kind.INVALID, "The workflow does not take these parameters.", "See what it takes with `anabranch workflows show`."),
    Code("job.purged", Kind.NOT_FOUND, "The job was there, and was purged.", "Submit it again for a new one; `retention_days` says how long jobs are kept.", 410),
    Code("job.timed_out", Kind.TIMED_OUT, "The job had not ended when the time to wait was over.", "It goes on; wait again, look with `anabranch status`, or end it with `anabranch cancel`."),
    Code("key.invalid", Kind.INVALID, "A key can't have this name, owner or time.", "Use 1 to 200 printable characters, and a time of more than nothing."),
    Code("key.not_found", Kind.NOT_FOUND, "There is no such key.", "List them with `anabranch keys list`."),
    Code("limit.not_found", Kind.NOT_FOUND, "There is no such limit.", "List them with `anabranch limits list`."),
    Code("name.invalid", Kind.INVALID, "What was given is not a name.", "Give one that is more than dots.", LOCAL),
    Code("node.count", Kind.INVALID, "The parameter that says how many tasks a node has is no such number.", "Give an integer from 0 to 1,000,000."),
    Code("node.not_found", Kind.NOT_FOUND, "The job has no such node.", "See its nodes with `anabranch status`."),
    Code("output.unwritable", Kind.INVALID, "The file can't be written.", "Name another.", LOCAL),
    Code("page.cursor", Kind.INVALID, "It is not a cursor of a list.", "Use the `next` of the page before."),
    Code("parameters.invalid", Kind.INVALID, "The parameters on the command line can't be read.", "Write `-p KEY=VALUE`, or give a JSON object with `--params`.", LOCAL),
    Code("parameters.unreadable", Kind.INVALID, "The file of parameters can't be read.", "Name a file that you may read.", LOCAL),
    Code("plugin.invalid", Kind.DEFINITION, "A plugin declares something that can't be used.", "Mend the plugin as the message says."),
    Code("plugin.missing", Kind.DEFINITION, "A plugin can't be found.", "Install it, or mend ANABRANCH_PLUGINS."),
    Code("plugin.refused", Kind.DEFINITION, "A plugin that the settings name can't be loaded.", "Mend the plugin, or ANABRANCH_PLUGINS."),
    Code("quota.bytes", Kind.THROTTLED, "The owner of the key has uploaded as much as it may in a day.", "Wait as long as `Retry-After` says, or raise ANABRANCH_OWNER_UPLOAD_MB_PER_DAY."),
    Code("quota.jobs", Kind.THROTTLED, "The owner of the key has submitted as many jobs as it may in a day.", "Wait as long as `Retry-After` says, or raise ANABRANCH_OWNER_JOBS_PER_DAY."),
    Code("raster.band_masks", Kind.TASK, "Bands have masks of their own, and a COG has one mask for all.", "Write a nodata value where a band has no data, or send each band by itself."),
    Code("raster.bounds", Kind.TASK, "The raster's bounds can't be of its coordinate system.", "See whether the coordinate system is the right one, and whether x and y were swapped."),
    Code("raster.codec", Kind.TASK, "The file is compressed as GDAL can't decode here.", "Write it with a common compression, where that codec is known."),
    Code("raster.collection", Kind.TASK, "A collection can't have this id.", "Use 1 to 63 letters, digits, dots, dashes and underscores, the first a letter or digit."),
    Code("raster.crs_conflict", Kind.TASK, "The raster has another coordinate system than `input_crs` says.", "Leave `input_crs` out; give `target_crs` to have another one in the output."),
    Code("raster.crs_heights", Kind.TASK, "The raster's coordinate system is projected and has heights as a third axis.", "Give the same system without heights as `input_crs`."),
    Code("raster.crs_local", Kind.TASK, "The raster's coordinate system has no place on Earth.", "Give the one that its coordinates are in as `input_crs`, or georeference the raster."),
    Code("raster.crs_missing", Kind.TASK, "The raster has no coordinate system.", "Give the one that its coordinates are in as `input_crs`, like EPSG:32633."),
    Code("raster.crs_text", Kind.TASK, "What was given is not the code of a coordinate system.", "Give a code like EPSG:32633."),
    Code("raster.crs_unknown", Kind.TASK, "Nobody knows a coordinate system of this code.", "Give a code like EPSG:32633."),
    Code("raster.damaged", Kind.TASK, "The file begins as a raster, but can't be opened.", "Upload it again; open it elsewhere to see that it is whole."),
    Code("raster.datetime", Kind.TASK, "The given datetime is not a moment with its zone.", "Write it like 2026-03-21T10:15:00Z."),
    Code("raster.disk", Kind.TASK_AGAIN, "The disk was full while a COG was written.", "Make room where workers keep their scratch, then run the job again."),
    Code("raster.draft", Kind.TASK, "The source is what a job made, and may not be published yet.", "Send the source again, or an object of the bronze tier."),
    Code("raster.drivers", Kind.TASK, "GDAL has loaded drivers that are not allowed.", "It is a mistake of ours: report it, with the version of GDAL."),
    Code("raster.dtype", Kind.TASK, "The pixels are complex numbers.", "Write amplitude and phase as bands of real numbers."),
    Code("raster.empty", Kind.TASK, "The file has zero bytes.", "Upload it again."),
    Code("raster.empty_pixels", Kind.TASK, "At least 99 % of the raster is nodata.", "Send a raster that has data, or mend its nodata value, mask or alpha band."),
    Code("raster.extension", Kind.TASK, "The file does not end as a raster that can be read.", "Convert it to a GeoTIFF with `gdal_translate -of COG`."),
    Code("raster.fill_value", Kind.TASK, "A value looks like a fill value that is not declared as nodata.", "Declare it as nodata in the file."),
    Code("raster.format", Kind.TASK, "The file is of a format that is not read as a raster.", "Convert it to a GeoTIFF with `gdal_translate -of COG`."),
    Code("raster.invalid", Kind.TASK, "Several things are wrong with the raster.", "Mend them all; the message names each with its own code."),
    Code("raster.kind", Kind.TASK, "The raster can't be of the kind that was declared.", "Leave `raster_type` out, or declare the one that the message names."),
    Code("raster.kind_unknown", Kind.TASK, "The given raster_type is no kind of raster.", "Name one of the kinds, or leave it out."),
    Code("raster.library", Kind.TASK, "GDAL can't work on the raster; the message is its own.", "Write the file anew with `gdal_translate -of COG`, and send that."),
    Code("raster.missing", Kind.TASK, "The file is not on the machine.", "Stage it again, then retry."),
    Code("raster.no_georeference", Kind.TASK, "The raster has no geotransform, or only control points or RPCs.", "Write its origin and pixel size into the file, or rectify it first."),
    Code("raster.not_written", Kind.TASK, "The COG could not be written.", "Open the file elsewhere to see that it is whole; upload it again."),
    Code("raster.outside", Kind.NOT_FOUND, "The raster has nothing there.", "Its bounds are in tilejson.json."),
    Code("raster.query", Kind.INVALID, "A raster can't be drawn or read so.", "What a route takes is described at /raster/api."),
    Code("raster.reprojection", Kind.TASK, "The raster can't be brought into `target_crs`.", "Choose one that covers where the raster is."),
    Code("raster.rotated", Kind.TASK, "The raster is rotated or sheared.", "Give `target_crs`, which may be its own, to have it resampled."),
    Code("raster.size", Kind.INVALID, "More is asked for than is computed at once.", "Ask for less, several times."),
    Code("raster.slow", Kind.UNAVAILABLE, "The raster was not drawn in time.", "Ask for less, or try again later."),
    Code("raster.tier", Kind.TASK, "The tier visualization is for rgb and rgba of 8 bits only.", "Ask for the tier `analysis` or `archive`."),
    Code("raster.tiled_unavailable", Kind.TASK, "The raster is too large for one COG, and cutting into tiles is not built yet.", "Send it in parts, or with `tiling: never` where disk and time allow one COG."),
    Code("raster.too_large", Kind.TASK, "The raster asks for more than a limit allows.", "Write it as an ordinary tiled GeoTIFF, split it, or raise the limit."),
    Code("raster.truncated", Kind.TASK, "The file ends before its pixels do.", "Upload it again; compare its size and checksum with the original."),
    Code("raster.unclear_answer", Kind.TASK, "The reviewer's answer says neither yes nor no.", "Run `anabranch retry JOB --from review`, and signal approved=true or approved=false."),
    Code("raster.unreadable", Kind.TASK, "Some pixels can't be read.", "Upload the file again; compare its size and checksum with the original."),
    Code("raster.verify", Kind.TASK, "The COG is not what it should be.", "Nothing was published, and running the job again gives the same: report it."),
    Code("raster.window", Kind.TASK, "A tile ends beyond the raster.", "Plan the tiles again, for this source and this `target_crs`."),
    Code("replay.choice", Kind.INVALID, "Nothing says which dead letters to replay.", "Name jobs, a workflow, a handler or a code."),
    Code("request.framing", Kind.INVALID, "The request has both a Content-Length and a Transfer-Encoding.", "Send one of them.", 400),
    Code("request.host", Kind.NOT_ALLOWED, "The Host header is no name under which the API may be called.", "Call it as 127.0.0.1, localhost or [::1], or allow the name by ANABRANCH_PUBLIC_URL or ANABRANCH_ALLOWED_HOSTS."),
    Code("request.invalid", Kind.INVALID, "The request breaks the rules of its route.", "The routes and what they take are described at /openapi.json."),
    Code("request.json", Kind.INVALID, "The body is not JSON that can be stored, or not an object.", "Send one JSON object."),
    Code("request.media_type", Kind.INVALID, "The body is of a kind that the route does not take.", "Send it as application/json, or where a workflow is wanted as application/yaml.", 415),
    Code("request.method", Kind.INVALID, "The path does not take this method.", "Use one that the `Allow` header names.", 405),
    Code("request.origin", Kind.NOT_ALLOWED, "A page of another origin calls.", "Call the API from its own pages, or outside a browser; ANABRANCH_CORS_ORIGINS lets other pages read the catalog, tiles and files."),
    Code("request.rate", Kind.THROTTLED, "The key or the address asks too often.", "Wait as long as `Retry-After` says."),
    Code("request.route", Kind.NOT_FOUND, "There is no such path.", "The routes are described at /openapi.json."),
    Code("request.timeout", Kind.UNAVAILABLE, "The request did not come whole in time.", "Send it again, faster.", 408),
    Code("request.too_large", Kind.INVALID, "The body is over the limit.", "Send less, or raise ANABRANCH_MAX_BODY_BYTES.", 413),
    Code("request.unconfirmed", Kind.INVALID, "What was asked for needs to be confirmed.", "Say `?confirm=yes`."),
    Code("resource.cpu", Kind.TASK_AGAIN, "A file took more processor time than it may.", "Look whether the file is sound; raise the bound if it is."),
    Code("resource.disk", Kind.TASK_AGAIN, "The disk is full, or a file grew larger than it may.", "Make room, or raise the bound."),
    Code("resource.memory", Kind.TASK_AGAIN, "A file took more memory than it may.", "Raise the bound on memory, or send a smaller file."),
    Code("retry.child", Kind.CONFLICT, "The job was run by another job.", "Retry that one: its `parent`."),
    Code("retry.choice", Kind.INVALID, "A retry is of failed tasks of nodes, or of a node whole.", "Give one of both."),
    Code("retry.nothing_failed", Kind.CONFLICT, "Nothing failed that could be tried again.", "Name the node to run from: `--from NODE`, over HTTP `from_node`."),
    Code("retry.older", Kind.CONFLICT, "The job is not the newest of its parameters.", "Retry the newest, or submit it again."),
    Code("retry.open", Kind.CONFLICT, "The job has not ended.", "Cancel it first, or wait for its end."),
    Code("sandbox.answer", Kind.TASK, "A file gave more facts than anybody reads, or the process that read it said what makes no sense.", "Look whether the file is sound."),
    Code("sandbox.unavailable", Kind.TASK_AGAIN, "The process that opens files did not start, or died.", "See the worker's log; `anabranch doctor` checks the machine."),
    Code("serving.drivers", Kind.UNAVAILABLE, "GDAL was used in the API's process before its drivers were closed.", "Let plugins import and use GDAL only in their handlers."),
    Code("serving.not_installed", Kind.UNAVAILABLE, "What serves the catalog and tiles is not installed.", "Install anabranch[serving]."),
    Code("session.gone", Kind.UNAVAILABLE, "The process was taken for dead and begins a new session.", "Try again in a second."),
    Code("settings.invalid", Kind.INVALID, "A setting is wrong.", "Mend the variables or the file; `anabranch config show` lists them.", LOCAL),
    Code("stack.bad_address", Kind.INVALID, "The API can't listen on this address.", "Mend ANABRANCH_HOST and ANABRANCH_PORT, or `--host` and `--port` of `up`.", LOCAL),
    Code("stack.down", Kind.UNAVAILABLE, "Nothing runs in the home.", "Start it with `anabranch up`.", LOCAL),
    Code("stack.failed", Kind.UNAVAILABLE, "The stack did not start.", "Mend what its last lines say; the whole log is `logs/supervisor.log` of the home.", LOCAL),
    Code("stack.not_ready", Kind.UNAVAILABLE, "The stack was not ready in time.", "The logs in the home say why.", LOCAL),
    Code("stack.port_taken", Kind.CONFLICT, "Another process has the API's port.", "Stop it, or choose another with `--port`.", LOCAL),
    Code("stack.running", Kind.CONFLICT, "A stack runs in the home already.", "Use it, stop it with `anabranch down`, or set ANABRANCH_HOME to another folder.", LOCAL),
    Code("stack.starting", Kind.UNAVAILABLE, "The stack is still starting.", "Try again in a second.", LOCAL),
    Code("storage.address", Kind.INVALID, "What was given is not an address of storage.", "Write tier://path, like bronze://uploads/dem.tif."),
    Code("storage.changed", Kind.CONFLICT, "An object changed while it was read or written.", "Wait until whoever writes it is done, and try again."),
    Code("storage.checksum", Kind.CONFLICT, "An object has another SHA-256 than the one told.", "See whether it was replaced."),
    Code("storage.container", Kind.UNAVAILABLE, "The container of a tier does not exist.", "Make it, or mend the tier's URL."),
    Code("storage.denied", Kind.NOT_ALLOWED, "A tier's store refuses what was asked of it.", "See that the options of storage, or the rights of the folder, allow it.", 503),
    Code("storage.exists", Kind.CONFLICT, "There is an object under this key already.", "Choose another name, or replace it with `--overwrite`."),
    Code("storage.full", Kind.UNAVAILABLE, "There is no room for the file.", "Make room where the tier is."),
    Code("storage.lost", Kind.CONFLICT, "Objects that are published are gone or damaged.", "Bring them back from a backup, or publish their sources again with `--rerun`.", LOCAL),
    Code("storage.not_found", Kind.NOT_FOUND, "There is no such object.", "List what there is with `anabranch storage ls`."),
    Code("storage.not_installed", Kind.UNAVAILABLE, "A tier is in a cloud, and the package for that is not installed.", "Install anabranch[storage]."),
    Code("storage.not_shared", Kind.CONFLICT, "A tier or the work area is not the store that the other processes of the database use.", "Set the same `ANABRANCH_STORAGE__…` on every machine, or adopt the new store with `anabranch storage adopt --yes`.", LOCAL),
    Code("storage.options", Kind.INVALID, "A tier can't be opened with the options that it was given.", "Mend ANABRANCH_STORAGE__OPTIONS.", LOCAL),
    Code("storage.path", Kind.INVALID, "The path can't be that of an object.", "Write it as it is listed."),
    Code("storage.tier", Kind.NOT_FOUND, "There is no tier of this name.", "The tiers are bronze, silver and gold."),
    Code("storage.unconfirmed", Kind.USAGE, "The command would remove objects.", "Say so with `--yes`."),
    Code("storage.unreachable", Kind.UNAVAILABLE, "A tier's store does not answer.", "See that it is up, or mend the tier's URL and options."),
    Code("storage.unwritable", Kind.UNAVAILABLE, "The file can't be written.", "See that the bronze tier can be written to."),
    Code("stream.too_many", Kind.UNAVAILABLE, "As many streams are open as one process serves.", "Try again, ask for the job's status instead, or raise ANABRANCH_MAX_STREAMS."),
    Code("task.checkpoint_refused", Kind.TASK_AGAIN, "A checkpoint could not be stored.", "See the message; a checkpoint is JSON of at most 64 kB."),
    Code("task.failed", Kind.TASK, "A task failed, and nothing more is known.", "See what it printed with `anabranch logs`."),
    Code("task.lost", Kind.TASK, "The task was cancelled, or others have it now.", "Nothing: the attempt that counts is another one."),
    Code("task.no_predecessor", Kind.TASK, "The task has no task of the same index in the stage before.", "Declare uses_lineage on the stage, and give both stages the same indexes."),
    Code("task.queue_timeout", Kind.TASK_AGAIN, "No worker took the task in the time that its node allows.", "Start a worker that serves the queue, or raise `queue_timeout_seconds`."),
    Code("task.result_too_large", Kind.TASK, "The handler's result is larger than any that is kept.", "Write it to storage, and return where it is."),
    Code("task.silent", Kind.TASK_AGAIN, "The handler said nothing for longer than its heartbeat timeout.", "Call `ctx.progress` more often, or raise `heartbeat_timeout_seconds`."),
    Code("task.timed_out", Kind.TASK_AGAIN, "The handler ran longer than its time.", "Raise `timeout_seconds`, or give it less to do."),
    Code("task.total_timeout", Kind.TASK, "All attempts together took longer than the task may.", "Raise `total_timeout_seconds`."),
    Code("task.unstorable", Kind.TASK, "The database refused the handler's result.", "Mend what the handler returns."),
    Code("unknown", Kind.TASK, "A failure was stored without a code.", "See its message."),
    Code("upload.checksum", Kind.INVALID, "What arrived has another SHA-256 than was told.", "Send it again."),
    Code("upload.name", Kind.INVALID, "A file can't have this name.", "Give another, like dem.tif."),
    Code("upload.too_large", Kind.INVALID, "The file is over the limit.", "Raise ANABRANCH_MAX_UPLOAD_BYTES, or send less.", 413),
    Code("upload.unreadable", Kind.INVALID, "The file to upload can't be read.", "Name one that is there and may be read.", LOCAL),
    Code("usage", Kind.USAGE, "The command was called wrongly.", "See its `--help`."),
    Code("worker.died", Kind.TASK_AGAIN, "The worker that ran the task died.", "The task is tried again, up to five times alone; see the worker's log, and its memory."),
    Code("worker.exhausted", Kind.UNAVAILABLE, "The worker has no descriptors, threads, memory or disk space left for its own work.", "Raise its limits (`ulimit -n`) or make room; its tasks are handed back and not charged, and it goes on by itself.", LOCAL),
    Code("worker.no_children", Kind.UNAVAILABLE, "The server that forks the processes of handlers dies at once.", "The worker's log and the system's say why: memory, or a plugin that ends its process when it is imported.", LOCAL),
    Code("worker.not_found", Kind.NOT_FOUND, "There is no such live session.", "List them with `anabranch workers`."),
    Code("workflow.definition_missing", Kind.NOT_FOUND, "The definition that a job was pinned to is gone.", "Restore the database: definitions are never removed while jobs need them."),
    Code("workflow.input", Kind.DEFINITION, "An input of a workflow is declared wrongly.", "Mend the declaration; `anabranch workflows validate` names the place."),
    Code("workflow.invalid", Kind.DEFINITION, "A workflow is wrong.", "Mend it; `anabranch workflows validate` names every mistake."),
    Code("workflow.not_found", Kind.NOT_FOUND, "There is no such workflow.", "List them with `anabranch workflows list`."),
    Code("workflow.unreadable", Kind.UNAVAILABLE, "The definition of a workflow can't be read.", "Upgrade this process: a later release wrote it."),
)
# fmt: on

_BY_CODE = {each.code: each for each in CODES}


def find_code(code: str) -> Code | None:
    """What is known of a code; of a plugin's own, nothing."""
    return _BY_CODE.get(code)
