# What somebody is asked about: rules, verbs, answers.
load lib/common
load lib/asking

setup() {
	begin
	only_sandlock
	mkdir "$W/work"
	cd "$W/work"
}

teardown() { finish; }

@test "exec: what is allowed runs, what is denied is EPERM" {
	serve --ask-exec env -- sh -c 'env true && echo ran; env true || echo $?'
	wait_for /env
	sandlock approve "$N" "$ID"
	eventually grep -q ran "$W/out"
	wait_for /env
	sandlock deny --reason 'not twice' "$N" "$ID"
	served
	equal out "$(cat "$W/out")" "$(printf 'ran\n126')"
}

@test "a reason: it is on record and shown, and too long an error" {
	serve --ask-exec env -- sh -c 'env true; echo no; env false; echo no; sleep 60'
	wait_for /env
	sandlock deny --reason 'not twice' "$N" "$ID"
	eventually grep -q no "$W/out"
	run sandlock logs --json "$N"
	equal record "$(jq -c '.denials | map([.code, .rule])' <<<"$output")" \
		'[["ask.denied","env: not twice"]]'
	run sandlock why "$N"
	expect_output 'because: env: not twice'
	wait_for false
	run sandlock deny --reason "$(printf %0256d 0)" "$N" "$ID"
	expect_status 1
	expect_output 'the reason is longer than 255 bytes: the question is open'
	sandlock deny --reason "$(printf %0255d 0)" "$N" "$ID"
	equal audit "$(jq -r '.approval.reason // "" | select(startswith("0")) |
		length' "$SANDLOCK_STORE/approvals.jsonl")" 255
	eventually sh -c 'sandlock logs --json "$1" | jq -e ".denials[1].rule |
		test(\"^env: 0{248}[.]{3}$\")"' - "$N"
	sandlock kill "$N"
	served || true
}

@test "exec: nobody is asked about the command itself; all else with '*'" {
	serve --ask-exec '*' -- sh -c 'true; /bin/true; echo $?'
	wait_for /true
	run sandlock approvals "$N"
	expect_match "$N +$ID +.* run '/usr/bin/true'"
	sandlock approve "$N" "$ID"
	served
	equal out "$(cat "$W/out")" 0
}

@test "exec: what interprets a script is asked about, too, and shown" {
	printf '#!/usr/bin/env sh\necho "ran $1"\n' >s
	printf '#!./s\n' >of_s
	printf '#!/proc/self/root/usr/bin/env sh\n' >hidden
	printf '#!/bin/sh\necho fine\n' >other
	chmod +x s of_s hidden other
	serve --ask-exec /usr/bin/env -- sh -c \
		'./other; ./s 1; ./s 2; echo $?; ./of_s 3; ./hidden; echo $?'
	wait_for "run '$PWD/s' by '/usr/bin/env' as './s 1'"
	sandlock approve "$N" "$ID"
	wait_for "run '$PWD/s' by '/usr/bin/env' as './s 2'"
	run sandlock approvals --json "$N"
	expect_output '"interpreter": "/usr/bin/env"'
	sandlock deny "$N" "$ID"
	wait_for "run '$PWD/of_s' by '/usr/bin/env'"
	sandlock approve "$N" "$ID"
	served
	equal out "$(cat "$W/out")" "$(printf '%s\n' fine 'ran 1' 126 'ran ./of_s' 126)"
}

# program_by LOADER FILE [OPTION]: a program that the kernel executes LOADER for.
program_by() {
	printf 'int main(void) { return 0; }\n' |
		gcc -x c ${3-} -nostdlib -nostartfiles -Wl,-e,main \
			-fPIE -pie -Wl,--dynamic-linker="$1" -o "$2" -
}

@test "exec: a program that names its loader is asked about where the loader is" {
	command -v gcc >/dev/null || skip "no gcc"
	[ "$(uname -m)" = x86_64 ] || skip "the tool is for x86-64"
	# It says that it ran instead of the program.
	gcc -nostdlib -static-pie -fPIE -o tool -x c - <<-'E'
		#include <sys/syscall.h>
		static long call(long n, long a, long b, long c)
		{
			long r;
			__asm__ volatile("syscall" : "=a"(r) : "a"(n), "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
			return r;
		}
		void _start(void)
		{
			call(SYS_write, 1, (long)"tool\n", 5);
			call(SYS_exit, 7, 0, 0);
		}
	E
	program_by "$PWD/tool" p
	ln -s tool ld-fine.so.1
	program_by "$PWD/ld-fine.so.1" q
	cp tool ld.tool.so
	program_by "$PWD/ld.tool.so" r
	serve --ask-exec tool --ask-exec ld.tool.so -- \
		sh -c './p; echo $?; ./q; echo $?; ./r; echo $?; env true; echo $?'
	wait_for "run '$PWD/p' by '$PWD/tool'"
	sandlock deny "$N" "$ID"
	wait_for "run '$PWD/q' by '$PWD/tool'"
	sandlock approve "$N" "$ID"
	wait_for "run '$PWD/r' by '$PWD/ld.tool.so'"
	sandlock deny "$N" "$ID"
	served
	equal out "$(cat "$W/out")" "$(printf '%s\n' 126 tool 7 126 0)"
}

@test "exec: the loader of a 32-bit program is looked at, too" {
	program_by "$PWD/tool" p -m32 2>/dev/null || skip "no 32-bit programs"
	cp /usr/bin/true tool
	serve --ask-exec tool -- sh -c './p; echo $?'
	wait_for "run '$PWD/p' by '$PWD/tool'"
	sandlock deny "$N" "$ID"
	served
	equal out "$(cat "$W/out")" 126
}

@test "exec: a program that reads as one of either class is asked about" {
	[ "$(uname -m)" = x86_64 ] || skip "the program is for x86-64"
	# p is one of 64 bits but for the kernel, which goes by the machine.
	/usr/bin/python3 - "$PWD/tool" <<-'E'
		import struct, sys
		path = sys.argv[1].encode() + b"\0"
		AT = 0x400000
		def program(name, machine, segments, rest):
		    head = bytearray(struct.pack("<16sHHIIIIIHHHHHH", b"\x7fELF\1\1\1", 2,
		                                 machine, 1, AT + 256, 64, 0, 0, 52, 32,
		                                 len(segments), 0, 0, 0))
		    head += bytes(12)
		    if name == "p":
		        head[32:40] = struct.pack("<Q", 512)
		        head[54:58] = struct.pack("<HH", 56, 1)
		    for s in segments:
		        head += struct.pack("<8I", *s)
		    data = bytes(head).ljust(256, b"\0") + rest
		    open(name, "wb").write(data.ljust(1024, b"\0"))
		load = (1, 0, AT, AT, 1024, 1024, 5, 4096)
		# exit(7)
		code = b"\xb8\1\0\0\0\xbb\7\0\0\0\xcd\x80"
		program("tool", 3, [load], code)
		program("p", 6, [(3, 256, AT, AT, len(path), len(path), 4, 1), load], path)
	E
	chmod +x p tool
	./tool || [ $? -eq 7 ] || skip "no 32-bit programs"
	serve --ask-exec tool -- sh -c './p; echo $?'
	wait_for "run '$PWD/p'"
	sandlock deny "$N" "$ID"
	served
	equal out "$(cat "$W/out")" 126
}

@test "exec: an interpreter that is another one after the answer is not executed" {
	printf '#!./i\n' >s
	printf '#!/usr/bin/env sh\n' | tee i >j
	chmod +x s i j
	serve --ask-exec /usr/bin/env -- sh -c \
		'./s & env mv j i; echo moved; wait $!; echo $?'
	wait_for "run '$PWD/s' by"
	FIRST=$ID
	wait_for 'mv j i'
	sandlock approve "$N" "$ID"
	eventually grep -q moved "$W/out"
	sandlock approve "$N" "$FIRST"
	served
	equal out "$(cat "$W/out")" "$(printf 'moved\n126')"
}

# exec_is_asked [OPTION]...
exec_is_asked() {
	serve --ask-exec env "$@" -- sleep 60
	eventually sandlock exec "$N" true 3>&-
	sandlock exec "$N" env echo one >"$W/one" 3>&- &
	local first=$!
	wait_for 'env echo one'
	run sandlock approvals --json "$N"
	refute_output '"program"'
	sandlock approve "$N" "$ID"
	wait "$first"
	equal one "$(cat "$W/one")" one
	sandlock exec "$N" sh -c 'env echo two' >"$W/two" 3>&- &
	local second=$!
	wait_for 'env echo two'
	run sandlock approvals --json "$N"
	expect_output "\"program\": \"$(readlink -f /bin/sh)\""
	sandlock deny "$N" "$ID"
	wait "$second" || equal status $? 126
	sandlock kill "$N"
	served || :
}

@test "exec: what 'sandlock exec' starts is asked about, and no program does it" {
	exec_is_asked
}

@test "exec: what 'sandlock exec' starts is asked about without namespaces, too" {
	skip_unless_tier_c
	exec_is_asked --isolation notify --on-exit abort --on-error abort
}

@test "exec: what is not there is so for who may look" {
	[ "$(id -u)" -eq 0 ] || skip "needs another user"
	run sandlock run --name "$N" --ask-exec env -- sh -c 'mkdir -m 700 shut
		set -- setpriv --reuid=1 --regid=1 --clear-groups
		"$@" "$PWD/shut/none"; echo $?; "$@" "$PWD/none"; echo $?'
	expect_output 126
	expect_output 127
}

@test "a terminal: allowed for this sandbox, equal requests are not asked again" {
	run python3 "$TESTS/helpers/prompt.py" 's this sandbox=s' \
		'for this sandbox' 'env false=n' denied over -- \
		"$SANDLOCK" run --name "$N" --ask-exec env -- sh -c \
		'/usr/bin/env true && echo one; /usr/bin/env true && echo two
		/usr/bin/env false; echo over'
	expect_status 0
	expect_output two
	[ "$(grep -c 'wants to' <<<"$output")" -eq 2 ]
	grep -q '"reason":"for this sandbox"' "$SANDLOCK_STORE/approvals.jsonl"
}

@test "a terminal: what was printed before cannot hide a question" {
	run python3 "$TESTS/helpers/prompt.py" 'wants to' 'k kill=n' over -- \
		"$SANDLOCK" run --name "$N" --ask-exec env -- sh -c \
		'printf "\033[8m\033]0;Continue?"; /usr/bin/env; echo over'
	expect_status 0
	expect_output $'\e]0;Continue?\x18\e\\\e[!p\e[m'
	expect_output denied
}

@test "open: allowed, denied, and another file under the name" {
	echo secret >f
	echo other >g
	mkdir "$W/told"
	serve --ask-open "$PWD/f" --fs-mount "/told:$W/told:ro" -- \
		sh -c 'cat f; cat g; cat f || echo denied
		(until [ -e /told/go ]; do sleep 0.05; done
		python3 -c "import os; os.rename(\"g\", \"f\")"; echo moved) & cat f || echo swapped; wait'
	wait_for "read '$PWD/f'"
	sandlock approve "$N" "$ID"
	wait_for "read '$PWD/f'"
	sandlock deny "$N" "$ID"
	wait_for "read '$PWD/f'"
	# The sandbox itself swaps it meanwhile.
	wait_for "read '$PWD/f'"
	touch "$W/told/go"
	eventually grep -q moved "$W/out"
	sandlock approve "$N" "$ID"
	served
	equal out "$(cat "$W/out")" \
		"$(printf 'secret\nother\ndenied\nmoved\nswapped')"
}

@test "open: made in the caller's place it is what the kernel would make" {
	opens_equal
}

@test "open: a domain that a process enters by itself holds for it" {
	echo secret >f
	cp "$TESTS/helpers/domain.py" .
	run sandlock run --name "$N" --on-exit abort --ask=socket \
		--ask-open /nothing -- python3 domain.py f
	[[ $output != *'no Landlock'* ]] || skip "$output"
	expect_status 0
	expect_output refused
}

@test "answers: unknown, mismatching, repeated and late ones are refused" {
	serve --ask-exec env -- sh -c 'env true; sleep 60'
	wait_for /env
	run sandlock approve "$N" "99-${ID#*-}"
	expect_status 1
	expect_output 'there is no approval 99'
	run sandlock approve "$N" "${ID%-*}-00000000"
	expect_status 1
	expect_output 'is not what was shown'
	run sandlock approve "$N" "${ID%-*}"
	expect_status 1
	expect_output 'is no approval'
	sandlock approve "$N" "$ID"
	run sandlock deny "$N" "$ID"
	expect_status 1
	expect_output 'was allowed already, by uid'
	sandlock kill "$N"
	served || true
	serve --ask-exec env --ask-timeout 5 -- sh -c 'env true; sleep 60'
	wait_for /env
	eventually is_closed
	run sandlock approve "$N" "$ID"
	expect_status 1
	expect_output 'has expired'
	# Nobody has said no, but the deadline has.
	run sandlock logs --json "$N"
	equal denial "$(jq -c '.denials | map([.code, .call, .errno, .program,
		.rule])' <<<"$output")" '[["ask.expired","execve","EPERM","sh","env: nobody answered before the deadline (5.000 s)"]]'
	equal audit "$(jq -c '.approval | [.state, .by, .errno, .reason]' \
		"$SANDLOCK_STORE/approvals.jsonl" | tail -n 1)" \
		'["expired","deadline","EPERM","nobody answered in time"]'
	sandlock kill "$N"
	served || true
}

@test "nobody is there to ask: denied at once, and on record" {
	run sandlock run --name "$N" --ask-exec env -- sh -c 'env true'
	expect_status 126
	run sandlock run --name "$N.b" --ask-exec env --ask=never -- sh -c 'env true; true'
	expect_status 0
}

@test "a program answers: by its exit status, with the question on stdin" {
	cat >"$W/hook" <<-'SH'
		#!/bin/sh
		jq -r .what >>"${0%/*}/asked"
		grep -q 'as .*yes' "${0%/*}/asked"
	SH
	chmod +x "$W/hook"
	run sandlock run --name "$N" --ask="$W/hook" --ask-exec env -- sh -c \
		'/usr/bin/env no; /usr/bin/env true yes && echo ran'
	expect_output 'Operation not permitted'
	expect_output ran
	grep -q "run '/usr/bin/env' as '/usr/bin/env no'" "$W/asked"
	echo '#!/nonexistent' >"$W/hook"
	run sandlock run --name "$N" --ask="$W/hook" --ask-exec env -- \
		sh -c '/usr/bin/env'
	expect_status 126
	run sandlock run --name "$N" --ask=/nonexistent --ask-exec env -- true
	expect_status 125
	expect_output "'/nonexistent': No such file"
	run sandlock run --name "$N" --ask=relative -- true
	expect_status 125
	expect_output "nor the absolute path"
}

@test "a terminal: the question, its details, yes and no; none without one" {
	run python3 "$TESTS/helpers/prompt.py" 'k kill=?' '"digest"=y' \
		'allowed, once' ran 'k kill=n' denied over -- \
		"$SANDLOCK" run --name "$N" --ask-exec env -- sh -c \
		'/usr/bin/env true && echo ran; /usr/bin/env false; echo over'
	expect_status 0
	expect_output "wants to"
	expect_output "run '/usr/bin/env' as '/usr/bin/env false'"
	expect_output "because of the rule 'env'"
	run sandlock run --name "$N" --ask=tty --ask-exec env -- \
		sh -c '/usr/bin/env'
	expect_status 126
	run env SANDLOCK_ASK=never python3 "$TESTS/helpers/prompt.py" over -- \
		"$SANDLOCK" run --name "$N" --ask-exec env -- sh -c \
		'/usr/bin/env; echo over'
	refute_output "wants to"
}

@test "open: a working directory too deep for a path is no way around a rule" {
	run sandlock run --on-exit=abort --on-error=abort --ask=never --ask-open "$PWD" -- \
		python3 -c '
import os
for i in range(30):
    os.mkdir("d" * 200)
    os.chdir("d" * 200)
try: print(os.open("file", os.O_CREAT | os.O_WRONLY))
except OSError as e: print(e.strerror)'
	expect_output 'File name too long'
}
