"""People by sex and age, and how they are written into a file."""

SCHEMA = {
    "attributes": [
        {"name": "sex", "keys": ["F", "M"]},
        {"name": "age", "cuts": [0, 18, 35, 120]},
    ]
}


def write(path, rows, header="sex,age"):
    path.write_text("\n".join([header, *[",".join(row) for row in rows]]) + "\n")
    return path
