# Savepoints of a transaction, for an ordinary user.
load lib/common
load lib/stages

setup() {
	begin
	stages_dir || return 1
	cat >"$W/s.toml" <<-END
		[filesystem]
		mount = ["$X:$X:rw"]
		[[stage]]
		program.exec = "/bin/sh"
		program.args = ["-c", '''
			echo 3 >>d/f; rm -rf d/e; mkdir d/e; echo n >d/e/n
			mkdir m; ln d/f k; chmod 000 m''']
		[[stage]]
		program.exec = "/bin/sh"
		program.args = ["-c", '''
			mv d e; echo 4 >>e/f; rm k e/e/n; rmdir m
			$X/snap . >$X/seen
			[ ! -e $X/fail ]''']
	END
}

teardown() {
	cd "$W" || return 1
	finish
}

@test "savepoints: an ordinary user's stages are published as the last one saw them" {
	run sandlock run --name "$N" --keep-stages --stage "$W/s.toml"
	expect_status 0
	snap . >"$W/now"
	same "$X/seen" "$W/now"
	equal names "$(ls | tr '\n' ' ')" "e h "
}

@test "savepoints: one that fails is undone alone" {
	touch "$X/fail"
	run sandlock run --name "$N" --keep-stages --stage-retries 1 \
		--stage "$W/s.toml"
	expect_status 1
	expect_output "stage 2 failed, and is undone"
	snap . >"$W/now"
	same "$W/old" "$W/now"
	sandlock commit "$N"
	equal f "$(tr '\n' ' ' <d/f)" "1 3 "
	equal mode "$(stat -c %a m)" 0
	[ ! -e e ]
	chmod 700 m
}
