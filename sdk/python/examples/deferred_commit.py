#!/usr/bin/env python3
"""Run a command, show what it would change, publish that only if told so.

    deferred_commit.py DIRECTORY COMMAND...

Somebody else may be asked: the answer is awaited, and nothing is blocked
meanwhile.
"""
import asyncio
import sys

from sandlock import BranchAction, Sandbox


async def approve(changes, upper_dir, wd):
    print(f"in {wd}, the new files are in {upper_dir}:")
    for change in changes:
        print(f"  {change}")
    answer = await asyncio.to_thread(input, "publish this? [y/N] ")
    return answer.strip().lower() == "y"


async def main(wd, cmd):
    sb = Sandbox(workdir=wd, on_exit=BranchAction.DEFER)
    r = sb.run(cmd)
    if sb.pending:
        if await approve(r.changes, sb.upper_dir, wd):
            await asyncio.to_thread(sb.commit)
        else:
            sb.abort()
    sys.stdout.buffer.write(r.stdout)
    sys.stderr.buffer.write(r.stderr)
    if r.error:
        print(f"deferred_commit: {r.error}", file=sys.stderr)
    return r.exit_code if r.exit_code >= 0 else 125


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit("usage: deferred_commit.py DIRECTORY COMMAND...")
    sys.exit(asyncio.run(main(sys.argv[1], sys.argv[2:])))
