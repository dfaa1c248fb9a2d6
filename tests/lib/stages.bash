# What the stages of a transaction work in.
#
#	load lib/common
#	load lib/stages
#	stages_dir	the directory, which is the current one from then on, and
#			$X beside it; $W/old is what snap says of it

stages_dir() {
	mkdir -p "$W/dir/d/e" "$W/outside"
	cp "$SNAP" "$W/outside/snap"
	cd "$W/dir" || return 1
	echo 1 >d/f
	echo 2 >d/e/g
	ln d/f h
	chmod 555 d/e
	find . -exec touch -h -d '2020-02-02 02:02:02.5' {} +
	snap . >"$W/old"
	X=$W/outside
}
