"""`signing-keys`: the keys that sign manifests."""

from anabranch.adapters.postgres.connect import Role
from anabranch.adapters.postgres.connect import connect as connect_database
from anabranch.cli.connection import connect, database_url
from anabranch.cli.setup import prepare
from anabranch.cli.terminal.options import Json
from anabranch.cli.terminal.output import age, print_json, print_result, print_table
from anabranch.manifests.signing_key import SigningKey

__all__ = ["list_signing_keys", "rotate"]


def list_signing_keys(json: Json = False) -> None:
    """List the public keys that signed manifests."""
    with connect() as client:
        keys = client.signing_keys()
    if json:
        print_json(keys)
        return
    print_table(
        ["id", "first used", "retired"], ([key.id, age(key.first_used_at), age(key.retired_at)] for key in keys)
    )


def rotate(json: Json = False) -> None:
    """Replace the signing key of this home; what the former one signed stays valid."""
    settings = prepare(quiet=True)
    file, url = settings.signing_key_file, database_url(settings)
    former = SigningKey.open(file).id
    key = SigningKey.replace(file)
    with connect_database(url, Role.APP, name="anabranch signing keys") as connection:
        connection.execute("select app.retire_signing_key(%s)", [former])
    print_result({"id": key.id, "former": former}, f"{key.id} signs from now on; {former} has retired", json=json)
