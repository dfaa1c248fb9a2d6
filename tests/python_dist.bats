# What `python -m build` makes of sdk/python: a source distribution, and of that
# a wheel. The C sources are compiled by .ci/run alone, SANDLOCK_TEST_COMPILE=1.
load lib/common
load lib/python

setup() {
	begin
	only_sandlock
	# The system's, where python3 is another one.
	for PYTHON in python3 /usr/bin/python3 ''; do
		"$PYTHON" -c 'import setuptools, wheel' 2>/dev/null && break
	done
	[ -n "$PYTHON" ] || skip "no Python that has setuptools and wheel"
	# Not in the tree: others build there.
	mkdir "$W/repo"
	cp -r "$REPO"/{LICENSE,Makefile,cmd,hooks,include,runtime,spec} "$W/repo"
	mkdir "$W/repo/sdk"
	cp -r "$REPO/sdk/python" "$W/repo/sdk"
	cd "$W/repo/sdk/python" || return 1
}

teardown() { finish; }

# setup_py COMMAND...
setup_py() {
	PYTHONWARNINGS=ignore "$PYTHON" setup.py -q "$@" >"$W/setup" 2>&1 || {
		tail -n 30 "$W/setup" >&2
		return 1
	}
}

@test "python wheel: of the source distribution, it runs a command" {
	setup_py sdist -d "$W/dist"
	tar -xf "$W"/dist/sandlock-*.tar.gz -C "$W"
	cd "$W"/sandlock-*/
	# All that the library and the program are made of is there.
	(cd "$REPO" && find Makefile cmd hooks include runtime spec -type f) |
		(cd source && xargs ls) >"$W/found"
	[ -e LICENSE ]
	unset MAKEFLAGS MFLAGS MAKELEVEL
	[ -n "${SANDLOCK_TEST_COMPILE:-}" ] || export SANDLOCK_BUILD=$BUILD
	setup_py bdist_wheel -d "$W/dist"
	ls "$W"/dist/sandlock-*-py3-none-linux_*.whl
	python3 -m zipfile -e "$W"/dist/*.whl "$W/site"
	chmod 755 "$W/site/sandlock/sandlock"
	cd "$W"
	mkdir work
	run env -u SANDLOCK_PROGRAM -u SANDLOCK_LIBRARY -u SANDLOCK_BUILD \
		PYTHONPATH="$W/site" python3 -c '
import sandlock
print(sandlock.Sandbox(workdir="work").run(["touch", "f"]).check().changes)'
	expect_status 0
	expect_output "path='f'"
	[ -e work/f ]
}

@test "python wheel: without a library, where the system has it" {
	SANDLOCK_BUILD='' setup_py bdist_wheel -d "$W/dist"
	run python3 -m zipfile -l "$W"/dist/sandlock-*-py3-none-any.whl
	expect_status 0
	expect_output sandlock/sandbox.py
	[[ $output != *libsandlock.so* ]]
}

@test "python wheel: a build that is not whole is no library" {
	mkdir "$W/half"
	cp "$BUILD/libsandlock.so" "$W/half"
	SANDLOCK_BUILD=$W/half run setup_py bdist_wheel -d "$W/dist"
	expect_status 1
	expect_output "'$W/half' lacks"
}
