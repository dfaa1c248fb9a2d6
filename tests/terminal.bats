# A command on a terminal, started from a shell with job control.
load lib/common

setup() {
	begin
	only_sandlock
	mkdir "$W/work"
	cd "$W/work"
	PATH=$(dirname "$SANDLOCK"):$PATH
}

teardown() {
	cd /
	finish
}

# What is typed and seen: tests/helpers/jobs.py.
at_shell() {
	cat >"$W/transcript"
	run timeout 100 python3 "$TESTS/helpers/jobs.py" "$W/transcript"
	expect_status 0
}

@test "terminal: in the background it runs, and leaves the terminal alone" {
	at_shell <<'END'
< sandlock run -- sh -c 'sleep 1; echo in-back-$((40+2)); exit 3' &\r
> in-back-42
< wait %1; echo status=$?\r
> status=3
> ready>
< stty -a | grep -o ' -*icanon'\r
>  icanon
END
}

@test "terminal: brought to the foreground it gets what is typed" {
	at_shell <<'END'
< sandlock run -- sh -c 'echo begun-$((1+1)); read x; echo got-$x' &\r
> begun-2
< jobs\r
> Running
< fg\r
> fg\r
~ 0.5
< hello\r
> got-hello
> ready>
END
}

stops_and_goes_on() {
	at_shell <<END
< sandlock run $1 -- sh -c 'echo begun; read x; echo got-\$x; exit 4'\\r
> begun\\r
< \\x1a
> Stopped
> ready>
< stty -a | grep -o ' -*icanon'; jobs\\r
>  icanon
> Stopped.*sandlock
< fg\\r
> fg\\r
< hello\\r
> got-hello
> ready>
< echo after-\$?\\r
> after-4
END
}

@test "terminal: ^Z stops the command and the job, fg goes on with both" {
	stops_and_goes_on ""
}

@test "terminal: so it does without namespaces" {
	skip_unless_tier_c
	stops_and_goes_on --isolation=notify
}

@test "terminal: what was stopped goes on in the background" {
	at_shell <<'END'
< sandlock run -- python3 -c 'import time; print("begun"); time.sleep(2); print("ended-%d" % 5)'\r
> begun\r
< \x1a
> Stopped
> ready>
< bg\r
> ended-5
< wait; echo all-$((3+4))\r
> all-7
< stty -a | grep -o ' -*icanon'\r
>  icanon
END
}

@test "terminal: a command that stops itself stops the job; one that catches ^Z does not" {
	at_shell <<'END'
< sandlock run -- sh -c 'echo begun; kill -TSTP $$; echo on; exit 3'\r
> begun\r
> Stopped
> ready>
< fg; echo status=$?\r
> on
> status=3
> ready>
< sandlock run -- python3 -c 'import signal, time; signal.signal(signal.SIGTSTP, lambda *a: print("caught")); print("begun"); time.sleep(2); print("ended-%d" % 5)'\r
> begun\r
< \x1a
> caught
> ended-5
! Stopped
> ready>
END
}

@test "terminal: a shell inside has jobs of its own" {
	at_shell <<'END'
< PS1=out; PS1+="er> "\r
> outer>
< sandlock run --env 'PS1=inner> ' -- bash --norc -i; echo status=$?\r
> inner>
< cat /proc/1/comm; sh -c 'echo inner-$((1+1)); read x'\r
> sandlock-init
> inner-2
< \x1a
> Stopped
! outer
> inner>
< jobs\r
> Stopped.*inner
< kill -9 %1; sleep 0.5\r
> Killed
> inner>
< exit 5\r
> status=5
! Stopped.*sandlock
END
}

@test "terminal: what was typed before it began is for the command, its end, too" {
	at_shell <<'END'
< sleep 2; sandlock run -- sh -c 'cat; echo end-$((1+1))'; echo status=$?\r
~ 0.5
< abc\r\x04
> abc\r\n(.|\n)*abc\r\nend-2
> status=0
END
}
