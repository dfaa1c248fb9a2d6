# The suites of sdk/python.
#
#	load lib/python
#	python_suite MODULE...			by $PYTHON, else python3
#	pythons					every Python that we support

python_suite() {
	local status=0

	(
		cd "$REPO/sdk/python" || exit 1
		SANDLOCK_LIBRARY=$BUILD/libsandlock.so \
			PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=. \
			timeout -k 5 240 "${PYTHON:-python3}" -W error::ResourceWarning \
			-m unittest -v "${@/#/tests.test_}" >"$W/python" 2>&1
	) || status=$?
	# Of a suite only some are: tests/run counts these lines.
	sed -n "s/^\(test_[^ ]*\) .* \.\.\. skipped ['\"]\(.*\)['\"]$/# skipped: \1: \2/p" \
		"$W/python" >&3
	[ "$status" -eq 0 ] || tail -n 60 "$W/python" >&2
	return "$status"
}

# A path for each version that is here, in $PATH or of pyenv. A shim of pyenv
# stands for a version that may not be there, so each one is asked.
pythons() {
	local version path

	for version in 3.9 3.10 3.11 3.12 3.13; do
		for path in $(type -aP "python$version") \
			"${PYENV_ROOT:-$HOME/.pyenv}/versions/$version".*/bin/python3
		do
			[ -x "$path" ] || continue
			"$path" -c 'import ctypes' 2>/dev/null || continue
			echo "$path"
			break
		done
	done
}
