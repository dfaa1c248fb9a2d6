# Row 10: a file that changes while it is asked about.
load ../lib/common
load ../lib/asking

setup() { begin_with_execs; }

teardown() { finish; }

# HOW it is swapped: a command of the sandbox.
swapped_by() {
	rm -f f g
	echo secret >f
	echo other >g
	serve --ask-open "$PWD/f" -- sh -c "(python3 -c '$1'; echo swapped) &
		cat f || echo refused; wait"
	wait_for "read '$PWD/f'"
	eventually grep -q swapped "$W/out"
	sandlock approve "$N" "$ID"
	served
	equal out "$(cat "$W/out")" "$(printf 'swapped\nrefused')"
}

@test "10: swapped by rename or by a symlink it is refused" {
	swapped_by 'import os; os.rename("g", "f")'
	sandlock abort "$N"
	swapped_by 'import os; os.symlink("g", "l"); os.rename("l", "f")'
}
