"""Judges configs by their JSON Schema, with a validator that has nothing to do with the program.

    config_schema.py SCHEMA FOLDER CONFIG...

Every config is judged as it is, and again with one thing changed at a time: an unknown member added
to an object, a member taken away, a value replaced by one of another kind. Each document is written
to FOLDER; each line of output says what became of it: {"file", "change", "place", "valid"}.
"""

import copy
import json
import pathlib
import re
import sys

import jsonschema
import yaml


class Loader(yaml.SafeLoader):
    """YAML 1.2: `on` is a key like any other, and only true and false are truths."""


Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:bool"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
Loader.add_implicit_resolver(
    "tag:yaml.org,2002:bool", re.compile("^(true|false)$"), ["t", "f"]
)

OTHER_KINDS = ["?", -1, [], ["?"], {}, {"surely_unknown": 1}, None]


def places(value, at=()):
    yield at, value
    if isinstance(value, dict):
        for name, below in value.items():
            yield from places(below, (*at, name))
    elif isinstance(value, list):
        for index, below in enumerate(value):
            yield from places(below, (*at, index))


def changed(config, at, change):
    """A copy in which `change(parent, last step)` was done."""
    whole = {"root": copy.deepcopy(config)}
    parent, steps = whole, ("root", *at)
    for step in steps[:-1]:
        parent = parent[step]
    change(parent, steps[-1])
    return whole["root"]


def replacing(value):
    def change(parent, step):
        parent[step] = value

    return change


def add_unknown(parent, step):
    parent[step]["surely_unknown"] = 1


def remove(parent, step):
    del parent[step]


def variants(config):
    yield "none", (), config
    for at, value in places(config):
        # What a user names is his to choose.
        if isinstance(value, dict) and at != ("upstreams",) and at[-1:] != ("headers",):
            yield "unknown member", at, changed(config, at, add_unknown)
        if at and isinstance(at[-1], str):
            yield "removed", at, changed(config, at, remove)
        for other in OTHER_KINDS:
            if at:
                yield "other kind", at, changed(config, at, replacing(other))


def main():
    schema = json.loads(pathlib.Path(sys.argv[1]).read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    folder = pathlib.Path(sys.argv[2])
    number = 0
    for name in sys.argv[3:]:
        config = yaml.load(pathlib.Path(name).read_text(), Loader)
        for change, at, variant in variants(config):
            number += 1
            file = folder / f"{number}.yaml"
            # JSON is YAML.
            file.write_text(json.dumps(variant))
            place = ".".join(map(str, at))
            valid = validator.is_valid(variant)
            verdict = {"file": str(file), "change": change, "place": place, "valid": valid}
            print(json.dumps(verdict))


main()
