# Who is asked, and handlers, where a branch is not mounted: first they, then the
# branch carries out what was shown (sandbox/cow_object.c).
load lib/common
load lib/asking
load lib/embed

setup() {
	begin_embed
	skip_unless_tier_c
	cd "$D" || return 1
}

teardown() {
	cd "$W" || return 1
	finish
}

# serve_branch [OPTION]... -- COMMAND
serve_branch() {
	serve --isolation=notify --on-exit=abort --on-error=abort "$@"
}

in_branch() {
	run sandlock run --isolation=notify --on-exit=abort --on-error=abort \
		--name "$N" "$@"
}

handle_branch() {
	run timeout --foreground -k 5 "$COMMAND_TIMEOUT" "$HELPERS/handle" \
		program.isolation=notify config.branch=true filesystem.on_exit=abort \
		filesystem.on_error=abort "$@"
}

# answer VERB WHAT: the next question, about WHAT.
answer() {
	wait_for "$2"
	sandlock "$1" "$N" "$ID"
	eventually is_closed
}

@test "tier C, asking: programs of the branch run if they may, by their own name" {
	serve_branch --ask-exec "$D/p" --ask-exec "$D/s" -- /bin/sh -c '
		cp /bin/echo p; ./p one; ./p two; echo $?
		printf "#!/bin/sh -e\necho \$0 \$*\n" >s; chmod +x s; ./s 1; ./s 2; echo $?
		cp s t; ./t not asked about'
	answer approve "run '$D/p' as './p one'"
	answer deny "run '$D/p' as './p two'"
	answer approve "run '$D/s' by '$(readlink -f /bin/sh)' as './s 1'"
	answer deny "run '$D/s' by '$(readlink -f /bin/sh)' as './s 2'"
	served
	equal out "$(cat "$W/out")" \
		"$(printf 'one\n126\n./s 1\n126\n./t not asked about')"
	unchanged
}

@test "tier C, asking: programs of the branch, of who has changed its ids" {
	skip_unless_root
	serve_branch --ask-exec "$D/p" --ask-exec "$D/s" -- /bin/sh -c '
		chmod 755 .; cp /bin/echo p; printf "#!/bin/sh -e\necho \$0 \$*\n" >s
		chmod +x s
		/usr/bin/setpriv --reuid 1000 --regid 1000 --clear-groups /bin/sh -c "
			./p one; ./p two; echo \$?; ./s 1; ./s 2; echo \$?"'
	answer approve "run '$D/p' as './p one'"
	answer deny "run '$D/p' as './p two'"
	answer approve "run '$D/s' by '$(readlink -f /bin/sh)' as './s 1'"
	answer deny "run '$D/s' by '$(readlink -f /bin/sh)' as './s 2'"
	served
	equal out "$(cat "$W/out")" "$(printf 'one\n126\n./s 1\n126')"
	unchanged
}

@test "tier C, asking: files of the branch, as they are there" {
	serve_branch --ask-open "$D/f" -- /bin/sh -c 'cat f; echo new >f && cat f
		cat f || echo denied; rm f; cat f || echo gone'
	answer approve "read '$D/f'"
	answer approve "write '$D/f'"
	answer approve "read '$D/f'"
	answer deny "read '$D/f'"
	served
	equal out "$(cat "$W/out")" "$(printf 'old\nnew\ndenied\ngone')"
	unchanged
}

@test "tier C, asking: what comes to be under the name meanwhile is not opened" {
	cat >swap.py <<-'END'
		import os, threading, time
		def attempt(path):
		    try:
		        os.open(path, os.O_RDWR)
		        print("opened", path)
		    except OSError as e:
		        print(path, e.strerror)
		def swap(path, *pairs):
		    t = threading.Thread(target=attempt, args=(path,))
		    t.start()
		    while not os.path.exists("go-" + path[0]): time.sleep(0.01)
		    for a, b in pairs: os.rename(a, b)
		    print("swapped", path)
		    t.join()
		for name in "secret", "a", "other":
		    open(name, "w").write(name)
		for name in "d", "e":
		    os.mkdir(name)
		    open(name + "/f", "w").write(name)
		os.symlink("secret", "link")
		swap("a", ("link", "a"))
		swap("b", ("other", "b"))
		swap("d/f", ("d", "x"), ("e", "d"))
	END
	echo b >b
	serve_branch --ask-open "$D/a" --ask-open "$D/b" --ask-open "$D/d/f" -- \
		/usr/bin/python3 -B -u swap.py
	answer approve "write '$D/a'" # made by itself
	answer approve "write '$D/d/f'"
	for f in a b d/f; do
		wait_for "write '$D/$f'"
		touch "go-${f%/f}"
		eventually grep -q "swapped $f" "$W/out"
		sandlock approve "$N" "$ID"
		eventually grep -q "^$f Operation not permitted" "$W/out"
	done
	served
	! grep -q opened "$W/out" || false
}

@test "tier C, asking: nobody answers, in time or at all" {
	in_branch --ask-open "$D/f" --ask-exec "$D/p" --ask=never -- /bin/sh -c \
		'cp /bin/true p; ./p; echo $?; cat f; echo x >>f || ls p'
	expect_output 126
	expect_output 'cat: f: Operation not permitted'
	expect_output $'\np'
	in_branch --ask-open "$D/f" --ask=socket --ask-timeout=1 -- cat f
	expect_status 1
	expect_output 'Operation not permitted'
}

@test "tier C, asking: a thread rewrites the path of a program of the branch" {
	cp "$TESTS/helpers/execs.py" .
	serve_branch --ask-exec "$D/true" -- /bin/sh -c "cp /bin/true true
		/usr/bin/python3 execs.py rewrite $D/true"
	wait_for "run '$D/true'"
	eventually grep -q done "$W/out"
	sandlock approve "$N" "$ID"
	status=0
	served || status=$?
	[ "$status" = 3 ]
	grep -q 'Operation not permitted' "$W/out"
}

@test "tier C, asking: many programs of the branch at once, and threads" {
	cp "$TESTS/helpers/execs.py" .
	in_branch --ask-exec /nothing --ask=never -- /bin/sh -c '
		cp /bin/true t; printf "#!/bin/sh\nexit 0\n" >s; chmod +x s
		one() { for i in 1 2 3 4 5; do mkdir -p k$1/$i
			(cd k$1/$i && ../../t && ../../s && cp ../../t u && ./u) || echo went wrong; done; }
		for k in 1 2 3 4; do one $k & done; wait
		/usr/bin/python3 execs.py threads ./t 5 && echo all'
	expect_status 0
	expect_output all
	refute_output "went wrong"
}

@test "tier C, asking: a callback sees paths of the branch, each call once" {
	export ISOLATION=notify BRANCH=1
	run policy sync "$D/" 0 -- /bin/sh -c 'cp /bin/echo p; mkdir k; cd k; ../p hello; cat ../f'
	expect_output "event process execve $D/p ../p hello"
	expect_output "event file openat $D/f"
	expect_output $'hello\nevent file'
	expect_output old
	[ "$(grep -c 'event process execve' <<<"$output")" = 1 ]
	run policy sync "$D/f" 13 -- cat f
	expect_output 'Permission denied'
	run policy later "$D/n" 2 -- /bin/sh -c 'echo x >n; ls'
	expect_output 'cannot create n'
	run policy drop "$D/p" 0 -- /bin/sh -c 'cp /bin/true p; ./p'
	expect_output 'Operation not permitted'
}

@test "tier C, asking: a handler is asked before the branch" {
	handle_branch execve=path:0+continue -- /bin/sh -c \
		'cp /bin/echo p; ./p ran; printf "#!/bin/sh\necho s\n" >s; chmod +x s; ./s'
	expect_output $'\nran'
	expect_output $'path ./s\ns'
	# The shell, cp, p, chmod and s, each once.
	expect_output 'called 5'
	handle_branch mkdir=errno:28 -- mkdir k
	expect_output 'No space left'
	handle_branch mkdir=print+continue -- /bin/sh -c 'mkdir k && ls -d k'
	expect_output $'\nk'
	unchanged
}

@test "tier C, asking: a call that becomes another one gets past no handler" {
	[ "$(uname -m)" = x86_64 ] || skip "instructions of x86-64"
	"${CC:-gcc}" -O1 -pthread -o evades "$TESTS/helpers/evades.c"
	handle_branch threads=3 rmdir=errno:28 chdir=until:2:1+continue \
		uname=return:0 -- /bin/sh -c 'mkdir d x; ./evades d x'
	expect_output 'rmdir -1 No space left'
	expect_output 'called 1'
}

@test "tier C: a FIFO that the child of a vfork would wait at is asked about once" {
	mkdir "$W/ff"
	mkfifo "$W/ff/p"
	printf '#!/bin/sh\ncat >/dev/null; echo >>"%s/asked"\n' "$W" >"$W/ok"
	chmod 755 "$W/ok"
	run timeout -s KILL 60 "$SANDLOCK" run --isolation=notify -r / -w "$W/ff" \
		--ask-open "$W/ff/p" --ask "$W/ok" -- python3 -c '
import os, sys
try:
    os.posix_spawn("/bin/cat", ["cat"], os.environ, file_actions=[
        (os.POSIX_SPAWN_OPEN, 0, sys.argv[1], os.O_RDONLY, 0)])
except PermissionError:
    print("denied")' "$W/ff/p"
	expect_status 0
	expect_output denied
	[ "$(wc -l <"$W/asked")" = 1 ]
}
