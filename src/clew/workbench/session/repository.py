"""The repository of a session, as its thread names it."""

from clew.core.arguments import check_arguments
from clew.core.values import AnyVersion, Committed, Expectation
from clew.database.database import Database
from clew.workbench.repository.source import RepositorySource, repository_ops

REPOSITORY_SET = "RepositorySet"


@check_arguments
async def set_repository(
    db: Database,
    session: str,
    source: RepositorySource,
    *,
    author: str | None = None,
    expect: Expectation | None = None,
) -> Committed:
    """Let a session work on a repository, from the next time that it is opened.

    Raises:
        InvalidArgument: The URL, the ref or a path cannot be used.
        ThreadNotFound: There is no such session.
        VersionConflict: It is not where ``expect`` says.
    """
    ops = repository_ops(source)
    return await db.thread(session).append(
        patches=ops, reason=REPOSITORY_SET, author=author, expect=expect or AnyVersion()
    )
