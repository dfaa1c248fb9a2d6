# What the host does to a directory while a sandbox runs on it: nothing of that
# is lost by a commit, and nothing is a conflict that is none. In both tiers.
load lib/common
load lib/running

setup() {
	begin
	only_sandlock
	mkdir -p "$W/dir"
	cd "$W/dir" || return 1
}

teardown() {
	cd "$W" || return 1
	finish
}

# noted N: so many bytes of notes are there (branch/watch.h), in all roots.
noted() {
	[ "$(cat "$SANDLOCK_STORE/branches/$N"/notes 2>/dev/null | wc -c)" -ge "$1" ]
}

# meanwhile TIER SCRIPT BYTES COMMAND: the host runs COMMAND when the sandbox
# has run SCRIPT and it was seen what the lower had there.
meanwhile() {
	local job

	[ -p "$W/go" ] || mkfifo "$W/go"
	: >"$W/out"
	sandlock run --isolation="$1" --name "$N" -- /bin/sh -c "$2
		echo ready; read -r go" <>"$W/go" >"$W/out" 2>"$W/err" &
	job=$!
	eventually grep -qs ready "$W/out"
	eventually noted "$3"
	eval "$4"
	echo >"$W/go"
	wait $job
}

# A note is 8 bytes where the lower has nothing, 16 where it has something, and
# 24 where upper's is equal to that.
conflicts_and_force() {
	mkdir a a2 e e/f e2 e2/f
	echo 1 | tee a/f e/f/f k o w t2 >x
	echo other | tee a2/f >e2/f/f
	meanwhile "$1" 'echo 2 >>a/f; echo new >a/new; echo 2 >>e/f/f
		echo 2 >t; mv t k; rm t2; echo 2 >t2; : >>o; exec 3<>w' \
		$((24 + 16 + 8 + 24 + 24 + 16 + 16 + 16 + 24 + 24)) \
		'mv a a.old; mv a2 a; mv e e.old; mv e2 e; touch a/x e/x
		rm k t2; echo 3 >o; rm w'
	run sandlock diff "$N"
	expect_exactly $'C M a/f (-2 bytes) (another one is there on the host now)
A a/new
C M e/f/f (-2 bytes) (another one is there on the host now)
C A k (removed on the host)
C A t2 (removed on the host)'
	run sandlock commit "$N"
	expect_status 3
	equal a "$(cat a/f e/f/f)" $'other\nother'
	[ ! -e k ]
	run sandlock commit --force "$N"
	expect_status 0
	equal forced "$(cat a/f a/new e/f/f k t2)" $'1\n2\nnew\n1\n2\n2\n2'
	equal "opened only" "$(cat o; ls w 2>&1 | wc -l)" $'3\n1'
	[ ! -e w ]
}

@test "meanwhile: another directory, what was removed, what was opened only" {
	conflicts_and_force namespaces
}

@test "meanwhile: the same without namespaces" {
	skip_unless_tier_c
	conflicts_and_force notify
}

@test "meanwhile: another directory, put there before anybody looks" {
	local tier

	for tier in $(tiers); do
		mkdir a a2 b
		echo 1 | tee a/f a/g >b/h
		echo other | tee a2/f >a2/g
		meanwhile "$tier" 'echo 2 >>a/f; rm a/g; chmod 700 b' 0 \
			'mv a a.old; mv a2 a; touch a/x; rm -r b; mkdir b'
		run sandlock commit "$N"
		expect_status 3
		run sandlock diff "$N"
		expect_match 'C D a/g \('
		expect_match 'C M a/f \(-2 bytes\) \('
		expect_match 'C m b/ '
		run sandlock abort "$N"
		expect_status 0
		rm -r a a.old b
	done
}

@test "meanwhile: what the host does beside it is no conflict" {
	local tier

	for tier in $(tiers); do
		mkdir a b
		echo 1 | tee a/f a/g >b/h
		meanwhile "$tier" 'echo 2 >>a/f; echo n >a/n; rm a/g; mkdir c
			echo x >c/x; : >>b/h; echo 2 >>b/h' \
			$((24 + 16 + 8 + 16 + 8 + 24 + 16)) \
			'touch a/x b/x y; rm y; mkdir d; echo 2 >b/i; chmod 700 b'
		run sandlock commit "$N"
		expect_status 0
		equal all "$(cat a/f a/n c/x b/h b/i; ls a)" \
			$'1\n2\nn\nx\n1\n2\n2\nf\nn\nx'
		equal mode "$(stat -c %a b)" 700
		rm -r a b c d
	done
}

@test "meanwhile: what is made faster than it is looked at holds nobody up" {
	mkdir big
	run sandlock run --timeout 2 --on-error=abort --name "$N" -- \
		python3 -c 'import os
os.rmdir("big")
os.mkdir("big")
for i in range(4000):
    open(f"big/{i}", "w").close()
while True:
    os.rename("big", "x")
    os.rename("x", "big")'
	expect_status 124
	expect_output "the time is over: '$N' was killed"
}
