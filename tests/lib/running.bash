# A command of the host that runs in the background while a test asks about it.
# With WITH=without_cgroups, say, it is started by way of that.

# begin_run [OPTION]... -- COMMAND...: in the background, as $N.
begin_run() {
	$WITH sandlock run --name "$N" --on-exit=abort \
		--on-error=abort "$@" </dev/null >"$W/out" 2>"$W/err" 3>&- &
	runner=$!
	eventually test -e "$W/run/$N/pid"
	eventually has_status "$N" running
	supervisor=$(sed -n 2p "$W/run/$N/pid")
}

is_said() {
	grep -q "$1" "$W/out"
}

end_run() {
	sandlock kill "$N"
	wait $runner || true
}

# ask VERB: the data of the answer.
ask() {
	python3 "$TESTS/helpers/control.py" "$W/run/$N/control.sock" \
		"{\"v\":1,\"verb\":\"$1\"}" | jq -c "if .ok then .data else . end"
}
