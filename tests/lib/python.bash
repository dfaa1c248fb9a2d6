# The suites of sdk/python.
#
#	load lib/python
#	python_suite MODULE...

python_suite() {
	local status=0

	(
		cd "$REPO/sdk/python" || exit 1
		SANDLOCK_LIBRARY=$BUILD/libsandlock.so \
			PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=. \
			timeout -k 5 240 python3 -W error::ResourceWarning \
			-m unittest "${@/#/tests.test_}" >"$W/python" 2>&1
	) || status=$?
	[ "$status" -eq 0 ] || tail -n 60 "$W/python" >&2
	return "$status"
}
