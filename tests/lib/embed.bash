# What suites of the C API load, after lib/common.
#
# embed WORD...: the embedder (helpers/embed.c), on a branch over $D, as $N.
# `make unit-build` makes it.

begin_embed() {
	begin || return 1
	only_sandlock
	[ -x "$HELPERS/embed" ] || {
		echo "'$HELPERS/embed' is missing: make unit-build" >&2
		return 1
	}
	D=$W/dir
	mkdir "$D"
	echo old >"$D/f"
	echo gone >"$D/g"
	find "$D" -exec touch -h -d '2020-02-02 02:02:02.123456789' {} +
	snap "$D" >"$W/old"
	export SANDLOCK_PROGRAM=$SANDLOCK
}

embed() {
	timeout --foreground -k 5 "$COMMAND_TIMEOUT" "$HELPERS/embed" \
		name="$N" config.workdir="$D" "$@"
}

# The directory is bit-identical to what it was.
unchanged() {
	snap "$D" >"$W/now"
	same "$W/old" "$W/now"
}

# One that is left alone: its pid is in $EMBEDDER, its output in $W/said.
embed_detached() {
	"$HELPERS/embed" name="$N" config.workdir="$D" "$@" \
		<&0 >"$W/said" 2>&1 3>&- &
	EMBEDDER=$!
	started "$EMBEDDER"
}

says() {
	grep -qF -e "$1" "$W/said"
}
