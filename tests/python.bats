# The Python package, sdk/python, against the library that was built.
load lib/common
load lib/python

setup() {
	begin
	only_sandlock
}

teardown() { finish; }

@test "python: structures are laid out as in the header" {
	python_suite layout
}

@test "python: values, errors, and which names there are" {
	python_suite pure
}

@test "python: runs, streams, threads, asyncio, pipelines" {
	python_suite run
}

@test "python: callbacks that decide about system calls" {
	python_suite policy.Verdicts policy.Questions policy.Bundles
}

@test "python: handlers that answer system calls" {
	python_suite handlers
}

# The other tests of the branch are rows of tests/seeds.
@test "python: the branch from threads and by name, examples" {
	python_suite branch.Threads branch.Stored branch.Examples mcp
}

@test "python: the cases that C and Go run, too" {
	python_suite cases
}

@test "python: a library by a relative name runs no program of the current directory" {
	mkdir "$W/evil"
	printf '#!/bin/sh\ntouch %s/evil/ran\n' "$W" >"$W/evil/sandlock"
	chmod 755 "$W/evil/sandlock"
	cd "$BUILD" || return 1
	run env -u SANDLOCK_PROGRAM python3 -c '
import os, sys
from ctypes import CDLL, byref, c_void_p, create_string_buffer
lib = CDLL("./libsandlock.so")
os.chdir(sys.argv[1])
lib.sandlock_request_new.restype = c_void_p
request = c_void_p(lib.sandlock_request_new())
for key, value in (b"config.branch", b"false"), (b"program.args", b"true"):
    lib.sandlock_request_set(request, key, value, b"test", None)
sandbox = c_void_p()
assert lib.sandlock_sandbox_new(None, request, byref(sandbox), None) == 0
lib.sandlock_sandbox_create(sandbox, create_string_buffer(4096), None)
lib.sandlock_sandbox_free(sandbox)' "$W/evil"
	expect_status 0
	[ ! -e "$W/evil/ran" ]
}

@test "python: a little of everything with each version that is here" {
	local python

	for python in $(pythons); do
		PYTHON=$python python_suite pure run.Runs.test_ends_are_told_apart \
			run.Async.test_runs_side_by_side run.Popen.test_talking_to_it \
			policy.Deferred.test_from_asyncio \
			handlers.Coroutines.test_arun_uses_its_loop || {
			echo "with $python" >&2
			return 1
		}
	done
}
