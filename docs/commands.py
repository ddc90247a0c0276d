"""A hook of MkDocs: the commands' own help in the place of a comment on the page of commands."""

from __future__ import annotations

import re
from typing import Any

from typer.main import get_command

from handful import cli
from handful.cli.lists import format_value, list_options

MARK = "<!-- commands -->"


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Called by MkDocs for every page."""
    return markdown.replace(MARK, reference()) if MARK in markdown else markdown


def reference() -> str:
    """All commands in Markdown: what each does, its arguments and options."""
    commands = sorted(get_command(cli.app).commands.items())
    sections = [_section("handful", name, command) for name, command in commands if not command.hidden]
    return "\n".join([*sections, _names()])


def _names() -> str:
    """What ``--set`` takes: the table of ``handful options``."""
    rows = [
        f"| `{row['name']}` | {row['of']} | {row['takes']} | `{format_value(row['default'])}` | {row['help']} |"
        for row in list_options()
    ]
    head = ["## Names for --set", "", "`--set name=value`, or `-s`; rare ones also work as `--name value`.", ""]
    return "\n".join([*head, "| name | of | takes | default | |", "|---|---|---|---|---|", *rows, ""])


def _section(path: str, name: str, command: Any) -> str:
    whole = f"{path} {name}"
    inner = getattr(command, "commands", None)
    if inner:
        return "\n".join(_section(whole, key, one) for key, one in inner.items() if not one.hidden)
    shown = [param for param in command.params if not getattr(param, "hidden", False) and param.name != "help"]
    arguments = [param for param in shown if param.param_type_name == "argument"]
    usage = " ".join([whole, *(_metavar(param) for param in arguments), "[OPTIONS]"])
    rows = [f"| `{_metavar(param)}` | {_help(param)} |" for param in arguments]
    rows += [f"| {_flags(param)} | {_help(param)} |" for param in shown if param not in arguments]
    text = re.sub(r"\s+", " ", command.help or "")
    return "\n".join([f"## {whole}", "", text, "", "```sh", usage, "```", "", "| | |", "|---|---|", *rows, ""])


def _metavar(param: Any) -> str:
    name = param.metavar or param.name.upper()
    return name if param.required else f"[{name}]"


def _flags(param: Any) -> str:
    return ", ".join(f"`{flag}`" for flag in [*param.opts, *param.secondary_opts])


def _help(param: Any) -> str:
    default = "" if param.default in (None, False, ()) or callable(param.default) else f" Default `{param.default}`."
    return (param.help or "").replace("|", r"\|") + default
