"""`silo acl`: the accounts of a broker, in RocketMQ's plain_acl.yml."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from ...store.names import RETRY_PREFIX as _GROUP_PREFIX
from ..shared.common import json_option, output, put_json, put_line, say
from ..shared.outcome import Exit, Failure
from ..shared.tables import plain_table

if TYPE_CHECKING:
    from collections.abc import Callable

    from click.shell_completion import CompletionItem

    from ...broker.access.accounts import Accounts
    from ...broker.access.editing import Change
    from ...broker.access.permissions import Account, Perm

F = TypeVar("F", bound="Callable[..., Any]")
_EPILOG: Final = """\b
Examples:
  silo acl --file /etc/silomq/plain_acl.yml
  silo acl add orders-service --topic 'orders=PUB|SUB' --group billing=SUB
  silo acl change orders-service --no-topic orders --new-secret
  silo acl remove orders-service
  silo acl test orders-service PUB orders --from 10.0.0.5
  silo acl check
"""
_VARIABLE: Final = "SILOMQ_BROKER_ACL_FILE"
#: The longest secret on standard input is one of the file's; more is read to refuse it.
_MOST_INPUT: Final = 4096
_PERMS: Final = ("DENY", "PUB", "SUB", "PUB|SUB")


def _file_option(command: F) -> F:
    """`--file FILE`."""
    return click.option(
        "--file",
        "path",
        type=click.Path(path_type=Path, readable=False),
        default="plain_acl.yml",
        envvar=_VARIABLE,
        show_envvar=True,
        show_default=True,
        metavar="FILE",
        help="The file of accounts (the broker's acl_file).",
    )(command)


def _account_names(
    context: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """The accounts of the file that the command line names; none if it cannot be read."""
    from click.shell_completion import CompletionItem

    from ...broker.access.accounts import read_accounts
    from ...store.errors import StoreError

    try:
        names = read_accounts(Path(context.params.get("path") or "plain_acl.yml")).by_key
    except (StoreError, OSError):
        return []
    return [CompletionItem(name) for name in sorted(names) if name.startswith(incomplete)]


@click.group(invoke_without_command=True, epilog=_EPILOG, short_help="Show and change accounts.")
@_file_option
@json_option
@click.pass_context
def acl(context: click.Context, path: Path, *, as_json: bool) -> None:
    """List the accounts of a broker, without their secrets, or change them.

    The accounts are a file, RocketMQ's plain_acl.yml. A broker takes a change within a second. The
    file is replaced at once; its owner, its mode and its comments stay. Indentation may change.
    """
    context.obj = path
    if context.invoked_subcommand is None:
        _list(_read(path), as_json=as_json)


def _read(path: Path) -> Accounts:
    from ...broker.access.accounts import read_accounts

    return read_accounts(path)


def _list(accounts: Accounts, *, as_json: bool) -> None:
    white = [str(pattern) for pattern in accounts.white]
    if as_json:
        found = [_described(one) for one in accounts.by_key.values()]
        put_json({"white_addresses": white, "accounts": found}, indent=2)
        return
    table = plain_table("", "Account", "Admin", "From", "Topics", "Groups")
    for one in accounts.by_key.values():
        topics, groups = (
            " ".join([*(f"{name}={perm}" for name, perm in perms.items()), f"*={default}"])
            for perms, default in _lists(one)
        )
        table.add_row(
            one.access_key, "yes" if one.admin else "no", str(one.white or "-"), topics, groups
        )
    output().print(table)
    put_line("")
    put_line(f"Requests that are not checked: {', '.join(white) or 'none'}")


def _lists(account: Account) -> tuple[tuple[dict[str, Perm], Perm], tuple[dict[str, Perm], Perm]]:
    """The permissions of an account by topic and by group, each with the default."""
    topics = {n: p for n, p in account.perms.items() if not n.startswith(_GROUP_PREFIX)}
    groups = {
        name.removeprefix(_GROUP_PREFIX): perm
        for name, perm in account.perms.items()
        if name.startswith(_GROUP_PREFIX)
    }
    return (topics, account.default_topic), (groups, account.default_group)


def _described(account: Account) -> dict[str, Any]:
    (topics, default_topic), (groups, default_group) = _lists(account)
    return {
        "account": account.access_key,
        "admin": account.admin,
        "white_address": None if account.white is None else str(account.white),
        "default_topic": str(default_topic),
        "default_group": str(default_group),
        "topics": {name: str(perm) for name, perm in topics.items()},
        "groups": {name: str(perm) for name, perm in groups.items()},
    }


# -- changes


def _entry(context: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> Any:
    from ...broker.access.accounts import parse_entry

    try:
        return dict(parse_entry(str(parameter.opts[0]), value) for value in values)
    except ValueError as error:
        raise click.BadParameter(str(error), context, parameter) from error


def _perm_of(_: click.Context, __: click.Parameter, value: str | None) -> Perm | None:
    from ...broker.access.permissions import Perm

    return None if value is None else Perm.parse(value)


def _options(command: F) -> F:
    """What an account may have."""
    perm: Any = click.Choice(_PERMS)
    for option in (
        click.option("--admin/--no-admin", default=None, help="May it administrate?"),
        click.option("--white", metavar="ADDRESSES", help="Its requests from there are believed."),
        click.option("--default-topic", type=perm, callback=_perm_of, help="For other topics."),
        click.option("--default-group", type=perm, callback=_perm_of, help="For other groups."),
        click.option(
            "--topic", "topics", multiple=True, callback=_entry, metavar="TOPIC=PERM",
            help="A permission of a topic: DENY, PUB, SUB or PUB|SUB; may be repeated.",
        ),
        click.option(
            "--group", "groups", multiple=True, callback=_entry, metavar="GROUP=PERM",
            help="A permission of a consumer group; may be repeated.",
        ),
        click.option("--secret-stdin", is_flag=True, help="Read the secret from standard input."),
    ):  # fmt: skip
        command = option(command)
    return command


def _change(secret_stdin: bool, **given: Any) -> Change:  # noqa: FBT001 - as the option is named
    from ...broker.access.editing import Change

    secret = None
    if secret_stdin:
        secret = sys.stdin.readline(_MOST_INPUT).rstrip("\r\n")
        if not secret:
            raise click.UsageError("standard input has no secret")
    return Change(secret=secret, **given)


def _tell_secret(account: str, secret: str | None, *, as_json: bool) -> None:
    """A secret that was made here is shown once, on stdout."""
    if as_json:
        put_json({"account": account, "secret": secret})
    elif secret is not None:
        put_line(secret)


@acl.command(short_help="Add an account.")
@click.argument("account")
@_options
@json_option
@click.pass_obj
def add(path: Path, /, account: str, *, as_json: bool, **given: Any) -> None:
    """Add ACCOUNT. Without --secret-stdin a secret is made, and printed to stdout, once.

    A file that is missing is made, for its owner alone.
    """
    import msgspec

    from ...broker.access.editing import add_account, new_secret

    change = _change(**given)
    made = None
    if change.secret is None:
        made = new_secret()
        change = msgspec.structs.replace(change, secret=made)
    add_account(path, account, change)
    say(f"account {account} is added to {path}")
    _tell_secret(account, made, as_json=as_json)


@acl.command(short_help="Change an account.")
@click.argument("account", shell_complete=_account_names)
@_options
@click.option("--no-topic", multiple=True, metavar="TOPIC", help="Take a topic from its list.")
@click.option("--no-group", multiple=True, metavar="GROUP", help="Take a group from its list.")
@click.option("--new-secret", "renews", is_flag=True, help="Make a new secret, and print it.")
@json_option
@click.pass_obj
def change(
    path: Path,
    /,
    account: str,
    *,
    no_topic: tuple[str, ...],
    no_group: tuple[str, ...],
    renews: bool,
    as_json: bool,
    **given: Any,
) -> None:
    """Change ACCOUNT: what is not named stays."""
    import msgspec

    from ...broker.access.editing import Change, change_account, new_secret

    wanted = _change(**given)
    topics = {**dict.fromkeys(no_topic), **wanted.topics}
    groups = {**dict.fromkeys(no_group), **wanted.groups}
    wanted = msgspec.structs.replace(wanted, topics=topics, groups=groups)
    made = None
    if renews:
        if wanted.secret is not None:
            raise click.UsageError("--new-secret and --secret-stdin: one of them")
        made = new_secret()
        wanted = msgspec.structs.replace(wanted, secret=made)
    if wanted == Change():
        raise click.UsageError("nothing to change")
    change_account(path, account, wanted)
    say(f"account {account} is changed in {path}")
    _tell_secret(account, made, as_json=as_json)


@acl.command(short_help="Remove an account.")
@click.argument("account", shell_complete=_account_names)
@json_option
@click.pass_obj
def remove(path: Path, /, account: str, *, as_json: bool) -> None:
    """Remove ACCOUNT. The last one stays, unless there are addresses that are not checked."""
    from ...broker.access.editing import remove_account

    remove_account(path, account)
    if as_json:
        put_json({"account": account, "removed": True})
    else:
        say(f"account {account} is removed from {path}")


@acl.command(short_help="Set the addresses whose requests are not checked.")
@click.argument("addresses", nargs=-1)
@click.pass_obj
def white(path: Path, /, addresses: tuple[str, ...]) -> None:
    """Set the ADDRESSES whose requests no account has to sign; without any, all are checked."""
    from ...broker.access.editing import set_white

    set_white(path, list(addresses))
    say(f"requests that are not checked: {', '.join(addresses) or 'none'}")


# -- looks


@acl.command(short_help="Say every error of the file.")
@json_option
@click.pass_obj
def check(path: Path, /, *, as_json: bool) -> None:
    """Say every error of the file, with its account and its field. Status 3 if there is one."""
    from ...broker.access.accounts import check_accounts, read_bytes

    data = read_bytes(path)
    try:
        accounts, problems = check_accounts(data)
        count = len(accounts.by_key)
    except ValueError as error:
        problems, count = [str(error)], 0
    if as_json:
        put_json({"file": str(path), "accounts": count, "problems": problems}, indent=2)
    else:
        for problem in problems:
            put_line(problem)
    if problems:
        raise Failure(Exit.SETTING, f"{path}: {len(problems)} errors: a broker does not take it")
    if not as_json:
        say(f"{path}: {count} accounts, no error")


@acl.command(short_help="Say whether an account may do something, and why.")
@click.argument("account", shell_complete=_account_names)
@click.argument("perm", type=click.Choice(("PUB", "SUB")))
@click.argument("name")
@click.option("--group", "is_group", is_flag=True, help="NAME is a consumer group, not a topic.")
@click.option("--from", "address", metavar="ADDRESS", help="The address of the request.")
@json_option
@click.pass_obj
def test(
    path: Path,
    /,
    account: str,
    perm: str,
    name: str,
    *,
    is_group: bool,
    address: str | None,
    as_json: bool,
) -> None:
    """Say whether ACCOUNT has the permission PERM of the topic NAME, and by which rule of the file.
    Status 1 if it has not.
    """
    from ...broker.access.permissions import Need, Perm
    from ...store.names import retry_topic

    need = Need(retry_topic(name) if is_group else name, Perm.parse(perm))
    allowed, rule = _decided(_read(path), account, need, address)
    if as_json:
        put_json({"account": account, "need": str(need), "allowed": allowed, "rule": rule})
    else:
        put_line(f"{'allowed' if allowed else 'denied'}: {rule}")
    if not allowed:
        raise Failure(Exit.FAILED, f"account {account!a} lacks {need}")


def _decided(accounts: Accounts, account: str, need: Any, address: str | None) -> tuple[bool, str]:
    """Whether something is allowed, and the rule in words."""
    import ipaddress

    from ...broker.access.permissions import Rule

    try:
        host = None if address is None else ipaddress.ip_address(address)
    except ValueError as error:
        raise click.UsageError(f"--from: {error}") from error
    for pattern in accounts.white:
        if host is not None and pattern.matches(host):
            return True, f"globalWhiteRemoteAddresses has {pattern}: nothing is checked"
    found = accounts.by_key.get(account)
    if found is None:
        return False, "there is no such account"
    if host is not None and found.white is not None and found.white.matches(host):
        return True, f"its whiteRemoteAddress is {found.white}: nothing is checked"
    decision = found.decide(need)
    if decision.rule in {Rule.TOPIC, Rule.GROUP}:
        name = need.resource.removeprefix(_GROUP_PREFIX)
        return decision.allowed, f"{decision.rule} has {name}={decision.given}"
    if decision.rule in {Rule.DEFAULT_TOPIC, Rule.DEFAULT_GROUP}:
        return decision.allowed, f"{decision.rule} is {decision.given}"
    return decision.allowed, str(decision.rule)
