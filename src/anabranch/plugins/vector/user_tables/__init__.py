"""Tables that users' handlers make in schema geo, and how they become layers: `ctx.geo`."""
