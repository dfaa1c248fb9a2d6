# What suites about questions load, after lib/common.

# begin, in $W/work, where execs.py is.
begin_with_execs() {
	begin
	only_sandlock
	mkdir "$W/work"
	cp "$TESTS/helpers/execs.py" "$W/work"
	cd "$W/work" || return
}

# serve [OPTION]... -- COMMAND: runs it as $N in the background.
serve() {
	sandlock run --name "$N" --ask=socket "$@" >"$W/out" 2>"$W/err" 3>&- &
	SERVER=$!
}

# serve_bundle [OPTION]...: the same with the bundle.
serve_bundle() {
	sandlock run -b "$B" --ask=socket "$@" "$N" >"$W/out" 2>"$W/err" 3>&- &
	SERVER=$!
}

served() {
	wait "$SERVER"
}

# The ID of the first question whose text has $1 in it.
id_of() {
	sandlock approvals --json "$N" 2>/dev/null |
		jq -er --arg what "$1" 'first(.approvals[].approval |
			select(.what | contains($what)) | .id)' >"$W/id"
	test -s "$W/id"
}

# Waits for it; it is $ID.
wait_for() {
	eventually id_of "$1"
	ID=$(cat "$W/id")
}

is_closed() {
	! sandlock approvals --json "$N" | grep -q "$ID"
}

# What opens do in a sandbox where all of them are mediated.
opens_equal() {
	mkdir "$W/native" "$W/boxed"
	(cd "$W/native" && python3 "$TESTS/helpers/opens.py") >"$W/expected"
	cp "$TESTS/helpers/opens.py" "$W/work"
	cd "$W/boxed" || return 1
	sandlock run --name "$N" --fs-mount "/helpers:$W/work:ro" --on-exit abort \
		--ask=socket --ask-open /nothing -- \
		python3 /helpers/opens.py >"$W/got"
	same "$W/expected" "$W/got"
}
