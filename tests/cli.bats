# The command line itself: grammar, help, statuses, formats. What the verbs do
# to sandboxes is in the other suites.
load lib/common

setup() {
	begin
	only_sandlock
}

teardown() { finish; }

has_hint() {
	[[ $output == *$'\n'"hint: "* ]]
}

verbs() {
	sandlock --help | sed -n 's/^  \([a-z][a-z]*\)  .*/\1/p'
}

# on_terminal COMMAND...: with standard output on a terminal of its own.
on_terminal() {
	command script -qec "$(printf '%q ' "$@")" /dev/null </dev/null | tr -d '\r'
}

# ------------------------------------------------------------ help, version --

@test "without arguments and with --help: the overview, on standard output" {
	run --separate-stderr sandlock
	expect_status 0
	overview=$output
	equal stderr "$stderr" ""
	run sandlock --help
	expect_exactly "$overview"
	run sandlock -h
	expect_exactly "$overview"
	run sandlock help
	expect_exactly "$overview"
}

@test "every verb explains itself in 80 columns" {
	[ "$(verbs | wc -l)" -ge 20 ]
	for verb in $(verbs); do
		run --separate-stderr sandlock "$verb" --help
		expect_status 0
		equal stderr "$stderr" ""
		expect_match "^usage: sandlock $verb"
		for part in Options: Examples: "Exit status:"; do
			expect_output "$part"
		done
		equal "longest line of $verb" "$(awk 'length > 80' <<<"$output")" ""
		help=$output
		run sandlock help "$verb"
		expect_exactly "$help"
	done
}

@test "--help is obeyed whatever else is wrong with the operands" {
	run sandlock start a b c --help
	expect_status 0
	run sandlock commit -h
	expect_status 0
}

@test "--version: version, specification, libseccomp, what is built in" {
	run sandlock --version
	expect_status 0
	equal first "${lines[0]}" \
		"sandlock $(sed -n 's/^.define SANDLOCK_VERSION "\(.*\)"/\1/p' \
			"$REPO/include/sandlock/base.h")"
	expect_match $'\nspec: 1\\.[0-9]+\\.[0-9]+'
	expect_match $'\nlibseccomp: 2\\.'
	expect_output +SECCOMP
	expect_output +BRANCH
	version=$output
	run sandlock -v
	expect_exactly "$version"
	run sandlock version
	expect_exactly "$version"
	sandlock version --format json |
		jq -e '.schema == "sandlock.version/1" and .spec and .version'
}

@test "sandlock-oci --version: what engines parse" {
	run sandlock_oci --version
	expect_status 0
	[[ ${lines[0]} =~ ^sandlock-oci\ version\ [0-9]+\.[0-9]+\.[0-9]+$ ]]
	equal "lines with version" "$(grep -c version <<<"$output")" 1
	expect_match $'\nspec: [0-9]+\\.[0-9]+\\.[0-9]+'
}

# ------------------------------------------------------------- usage errors --

@test "an unknown verb: one line, the nearest, status 2" {
	run --separate-stderr sandlock comit
	expect_status 2
	equal stdout "$output" ""
	equal stderr "$stderr" "sandlock: unknown command 'comit'
hint: did you mean 'commit'?"
	run sandlock list x
	expect_exactly "sandlock: unexpected operand 'x' for 'list'
hint: usage: sandlock list"
}

@test "an unknown option: one line, the nearest, status 2, no help" {
	run --separate-stderr sandlock create --bundel x a
	expect_status 2
	equal stdout "$output" ""
	equal stderr "$stderr" "sandlock: unknown option '--bundel' for 'create'
hint: did you mean '--bundle'?"
	run sandlock state -Z a
	expect_status 2
	expect_output "'-Z'"
	run sandlock --rot x list
	expect_status 2
	expect_output "did you mean '--root'?"
}

@test "options are never abbreviated" {
	run sandlock list --quie
	expect_status 2
	run sandlock diff --name x
	expect_status 2
}

@test "a missing value, a value too many, a bad word, a bad number" {
	run sandlock create a --bundle
	expect_status 2
	expect_output "needs a value"
	run sandlock list --quiet=yes
	expect_status 2
	expect_output "takes no value"
	run sandlock list --format yaml
	expect_status 2
	expect_output "table|json"
	run sandlock create --preserve-fds 3x a
	expect_status 2
	run sandlock create --preserve-fds -1 a
	expect_status 2
	run sandlock update --memory 5x a
	expect_status 2
	run sandlock events --interval soon a
	expect_status 2
}

@test "--no- is for the options that have it" {
	run sandlock list --no-quiet
	expect_status 2
	run sandlock run --no-detach -b "$W/missing" "$N"
	expect_status 125
	refute_output "unknown option"
}

@test "usage errors of run and exec are 125" {
	for words in "run --bogus" "exec" "exec a" "run -b x a b" \
		"exec -g x a true" "exec -p f a true"; do
		# shellcheck disable=SC2086
		run sandlock $words
		expect_status 125
		expect_one_error
	done
}

@test "sandlock-oci: 1 for a usage error, 3 for an unknown verb" {
	run sandlock_oci bogus
	expect_status 3
	run sandlock_oci state --bogus a
	expect_status 1
	run sandlock_oci run
	expect_status 1
	run sandlock_oci ps
	expect_status 1
	run sandlock_oci exec
	expect_status 1
	run sandlock_oci exec missing true
	expect_status 255
}

@test "options that exclude each other" {
	for words in "diff -z a" "diff --stat --patch a" "diff --digest a" \
		"commit --force --skip-conflicts a" "recover --all a" \
		"update a" "update -r x --memory 1m a"; do
		# shellcheck disable=SC2086
		run sandlock $words
		expect_status 2
		expect_one_error
	done
}

@test "--root: empty and / are refused" {
	run sandlock --root "" list
	expect_status 2
	run sandlock --root / list
	expect_status 2
}

# ----------------------------------------------------------------- grammar --

@test "run: what stands behind -- and several words are host commands" {
	mkdir dir
	cd dir
	for words in "run -- true" "run true -x" "run -- ls -b /usr"; do
		# shellcheck disable=SC2086
		run sandlock $words
		expect_status 0
		refute_output "sandlock:"
	done
	run sandlock run -- false
	expect_status 1
}

@test "run: with -b the operand is the name, wherever -b stands" {
	for words in "-b missing $N" "$N -b missing" "-b missing -- $N" \
		"--bundle=missing $N --keep"; do
		# shellcheck disable=SC2086
		run sandlock run $words
		expect_status 125
		expect_output "missing"
		refute_output "host commands"
	done
}

@test "an error names the command and the option as they were typed" {
	run sandlock config
	expect_status 2
	expect_output "missing operand for 'config'"
	expect_output 'usage: sandlock config NAME'
	run sandlock config --frob x
	expect_output "unknown option '--frob' for 'config'"
	run sandlock run --no-port-remap -b . x
	expect_output '--no-port-remap is for a command of the host'
	run sandlock run -t 9x -- true
	expect_output "-t: '9x' is not seconds"
}

@test "run: one word in a directory without config.json" {
	run sandlock run true
	expect_status 125
	expect_output "config.json"
	expect_output "sandlock run -- true"
}

@test "create: options before and after the name" {
	for words in "-b missing $N" "$N -b missing" "$N --bundle=missing" \
		"-bmissing $N"; do
		# shellcheck disable=SC2086
		run sandlock create $words
		expect_status 1
		expect_output "missing"
	done
}

@test "exec: options end at the name" {
	run sandlock exec "$N" ls --bogus
	expect_status 125
	refute_output "unknown option"
	run sandlock exec -dt "$N" ls
	refute_output "unknown option"
}

@test "kill: signals by name and number; others are usage errors" {
	for signal in TERM SIGTERM term 15 RTMIN+1; do
		run sandlock kill "$N" "$signal"
		expect_status 1
	done
	for signal in NOPE 0x9 99 ""; do
		run sandlock kill "$N" "$signal"
		expect_status 2
	done
}

# ------------------------------------------------------------------ output --

@test "every verb that prints data has --format json, and --json" {
	for verb in list ps branches recover version features check; do
		for option in "--format json" --format=json --json; do
			# shellcheck disable=SC2086
			sandlock "$verb" $option | jq -e . >/dev/null
		done
	done
	equal list "$(sandlock list --json)" "[]"
	equal "list of sandlock-oci" "$(sandlock_oci list --format json)" null
	equal ps "$(sandlock ps --json | jq -c .)" \
		'{"schema":"sandlock.ps/1","sandboxes":[]}'
	equal branches "$(sandlock branches --json | jq -c .)" \
		'{"schema":"sandlock.branches/1","branches":[]}'
}

@test "errors go to standard error only, with a hint on the second line" {
	run --separate-stderr sandlock state "$N"
	expect_status 1
	equal stdout "$output" ""
	[[ $stderr == "sandlock: "* ]]
	run --separate-stderr sandlock_oci state "$N"
	expect_status 1
	[[ $stderr == "sandlock-oci: "* ]]
}

@test "control characters in messages are escaped" {
	run sandlock state $'a\e[31m\nb'
	expect_status 1
	refute_output $'\e'
	expect_one_error
}

@test "--log: json and text, one error line, and echoed" {
	run sandlock --log "$W/j" --log-format json state "$N"
	expect_status 1
	expect_output "does not exist"
	jq -e '.level == "error" and (.msg | test("does not exist")) and
		(.time | fromdateiso8601 > 0)' "$W/j"
	equal keys "$(jq -c keys_unsorted "$W/j")" '["level","msg","time"]'
	run sandlock --log "$W/t" state "$N"
	grep -Eq '^time="[^"]+" level=error msg="' "$W/t"
	equal lines "$(wc -l <"$W/t")" 1
	# Usage errors, too.
	run sandlock --log "$W/u" --log-format json state --bogus
	expect_status 2
	jq -e '.msg | test("--bogus")' "$W/u"
}

@test "--debug: what happens is told, on stderr or in the log" {
	only_sandlock
	make_bundle
	run sandlock --debug run -b "$B" "$N"
	expect_status 0
	expect_output 'level=debug'
	expect_output "init is process"
	run sandlock --debug --log "$W/log" --log-format json run -b "$B" "$N"
	expect_status 0
	expect_exactly ""
	jq -es 'any(.level == "debug" and (.msg | contains("init is process")))' \
		"$W/log"
}

@test "--log: what cannot be written is an error" {
	run sandlock --log "$W" list
	expect_status 1
	run sandlock --log journald:x list
	expect_status 1
	has_hint
}

@test "standard output that cannot be written is a failure" {
	run sandlock --help
	sandlock --help >/dev/full && false
	run sandlock features
	sandlock features >/dev/full && false
	sandlock list >/dev/full && false
	true
}

@test "spec writes config.json once" {
	mkdir b
	sandlock spec -b b
	jq -e '.process.args == ["sh"] and (.root.readonly | not)' b/config.json
	cp b/config.json before
	run sandlock spec -b b
	expect_status 1
	has_hint
	cmp before b/config.json
	run sandlock spec -b missing
	expect_status 1
	mkdir r
	sandlock spec --rootless -b r
	jq -e '[.linux.namespaces[].type] | index("user")' r/config.json
}

@test "closed standard descriptors do no harm" {
	sandlock list >&- || true
	run sandlock state "$N" <&-
	expect_status 1
	sandlock --version 2>&- >/dev/null
}

# ------------------------------------------------------ a branch to look at --

with_branch() {
	make_bundle
	script 'echo more >>/data/a; rm /data/b; echo new >/data/n'
	sandlock run -b "$B" "$N" 2>"$W/note"
}

@test "the note at the end of run: one line, on standard error" {
	with_branch
	equal note "$(cat "$W/note")" "sandlock: 3 changes wait as '$N': sandlock diff $N, then commit or abort"
	make_bundle "$W/b2"
	script 'exit 3'
	run sandlock run -b "$W/b2" "$N-2"
	expect_status 3
	expect_exactly ""
}

@test "kill and delete say what waits, an engine is told nothing, what is gone is said to be" {
	make_bundle
	script 'echo more >>/data/a; rm /data/b; echo up; sleep 1000'
	create_running "$N"
	eventually grep -qx up "$W/out"
	run sandlock kill "$N" 0
	expect_exactly ""
	run sandlock kill "$N"
	expect_exactly "sandlock: 2 changes wait as '$N': sandlock diff $N, then commit or abort"
	run sandlock delete "$N"
	expect_exactly "sandlock: 2 changes wait as '$N': sandlock diff $N, then commit or abort"
	run sandlock kill "$N"
	expect_status 1
	expect_output "hint: it has ended, and left a branch: sandlock diff $N"
	sandlock abort -q "$N"
	run sandlock kill "$N"
	expect_output "hint: 'sandlock ps -a' lists them"
	run sandlock abort "$N"
	expect_status 1
	expect_output "no branch named '$N'"
	expect_output "committed, discarded or empty?"
	create_running "$N"
	eventually grep -qx up "$W/out"
	run sandlock_oci kill "$N" KILL
	run sandlock_oci delete --force "$N"
	expect_exactly ""
	for verb in ports approvals; do
		run sandlock "$verb" "$N"
		expect_output "container \"$N\" does not exist"
	done
}

@test "colour: on a terminal only, and not with NO_COLOR" {
	with_branch
	run sandlock diff "$N"
	refute_output $'\e'
	TERM=xterm PAGER=cat
	export TERM PAGER
	run on_terminal "$SANDLOCK" diff "$N"
	expect_output $'\e[31mD'
	NO_COLOR=1 run on_terminal "$SANDLOCK" diff "$N"
	refute_output $'\e'
	TERM=dumb run on_terminal "$SANDLOCK" diff "$N"
	refute_output $'\e'
	run sandlock diff --color always "$N"
	expect_output $'\e[31mD'
}

@test "a patch on a terminal: what a file says is shown, and not obeyed" {
	make_bundle
	script 'printf "\033[8mred\033]0;title\007 \302\2332J\r\n\ttab" >/data/esc
		printf "\033[8mmore\n" >>/data/a; ln -s "$(printf "l\033[2J")" /data/l'
	sandlock run -b "$B" "$N" 2>"$W/note"
	mkdir "$W/bin"
	for tool in sh cat diff; do
		ln -s "$(command -v "$tool")" "$W/bin/$tool"
	done
	for pager in --unset=PAGER PAGER=cat; do
		run on_terminal env -u SANDLOCK_PAGER "$pager" PATH="$W/bin" \
			TERM=xterm "$SANDLOCK" diff --patch "$N"
		expect_output $'\e[32m+\\x1b[8mred\\x1b]0;title\\x07 \\xc2\\x9b2J\\x0d'
		expect_output $'\ttab'
		expect_output $'\e[32m+\\x1b[8mmore'
		expect_output '+l\x1b[2J'
		expect_output "No newline at end of file"
		refute_output $'\e[8m'
		refute_output $'\e]'
	done
	sandlock diff --patch "$N" >"$W/patch"
	grep -q $'^+\e\\[8mred\e]0' "$W/patch"
	grep -q $'^+\e\\[8mmore$' "$W/patch"
}

@test "a pager: on a terminal only" {
	with_branch
	TERM=xterm SANDLOCK_PAGER='sed s/^/paged:/'
	export TERM SANDLOCK_PAGER
	run sandlock diff "$N"
	refute_output paged:
	run on_terminal "$SANDLOCK" diff --color never "$N"
	expect_output "paged:D data/b"
	SANDLOCK_PAGER='' run on_terminal "$SANDLOCK" diff "$N"
	refute_output paged:
}

@test "diff --exit-code: 1 with changes, 2 on failure" {
	with_branch
	sandlock diff "$N"
	run sandlock diff --exit-code "$N"
	expect_status 1
	run sandlock diff --exit-code "$N" no/such
	expect_status 0
	run sandlock diff --exit-code "$N-no"
	expect_status 2
}

@test "commit and abort say what they did, in JSON on request" {
	with_branch
	sandlock abort --json "$N" data/n | jq -e '.whole == false'
	run sandlock commit "$N" /data/a
	expect_status 0
	expect_output "committed 1 change of '$N'"
	sandlock commit --json "$N" |
		jq -e '.published == 1 and .gone and .conflicts == []'
	run sandlock branches -q
	expect_exactly ""
	script 'echo x >/data/x'
	sandlock run -b "$B" "$N" 2>/dev/null
	run sandlock abort -q "$N"
	expect_exactly ""
}

@test "commit without a name takes the only pending branch" {
	run sandlock commit
	expect_status 2
	with_branch
	run sandlock commit
	expect_status 0
	expect_output "'$N'"
}
