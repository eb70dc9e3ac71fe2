"""States of streams that are altered by hand, with or without all hashes made again."""

import hashlib
import json
import sqlite3
from contextlib import closing

WIDTH = 96


def run(path, *statements):
    """Change a state by statements of SQL."""
    with closing(sqlite3.connect(path)) as file, file:
        for statement in statements:
            file.execute(statement)


def hashed(*parts):
    return hashlib.blake2b(",".join(map(str, parts)).encode(), digest_size=16).hexdigest()


def keyed(key, text):
    return hashlib.blake2b(text.encode(), key=bytes.fromhex(key), digest_size=16).hexdigest()


def rehashed(path, identity=None, state=None, row=None):
    """Change the content of a state, and make all of its hashes again.

    Args:
        path: of the state.
        identity: changes the list of the identity.
        state: changes the object of the state.
        row: changes an answer, for its number.

    Returns:
        The witness of this state.
    """
    with closing(sqlite3.connect(path)) as file, file:
        ((text, key),) = file.execute("SELECT identity, key FROM stream")
        ((after, content),) = file.execute("SELECT after, content FROM state")
        first, said = json.loads(text), json.loads(content)
        for change, held in ((identity, first), (state, said)):
            if change is not None:
                change(held)
        text, content = json.dumps(first), json.dumps(said, separators=(",", ":"))
        chain, count = hashed("", text, key), 0
        rows = file.execute("SELECT number, answer, input FROM step ORDER BY number").fetchall()
        for number, answer, given in rows:
            changed = answer if row is None else row(number, answer)
            chain, count = hashed(chain, number, changed, given), number
            values = changed, chain, number
            file.execute("UPDATE step SET answer = ?, chain = ? WHERE number = ?", values)
        digest = keyed(key, f"{after} {count} {chain} {content}")
        file.execute("UPDATE stream SET identity = ?", (text,))
        file.execute("UPDATE state SET content = ?, digest = ?", (content, digest))
    return f"{count} {chain} {digest}".ljust(WIDTH - 1) + "\n"
