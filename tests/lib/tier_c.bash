# A sandbox of tier C with a branch over the directory that a test is in.

# in_branch [OPTION...] -- COMMAND...
in_branch() {
	run sandlock run --isolation=notify --name "$N" "$@"
}

# What the lower holds, byte by byte.
sum() {
	find . -printf '%p %y %m %T@ %l %n\n' | sort
	find . -type f | sort | xargs cat
}
