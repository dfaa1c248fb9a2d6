# The Go SDK: its own suite, with the race detector; its examples.
load lib/common
load lib/sdk

setup() {
	begin
	only_sandlock
	go_sdk
}

teardown() { finish; }

@test "go: it is formatted and free of what vet finds" {
	run gofmt -l .
	expect_status 0
	expect_exactly ''
	go vet ./...
}

@test "go: the suite, with the race detector" {
	# The runtime of cgo checks that no pointer of Go stays with C.
	GODEBUG=cgocheck=1 go test -count=1 -race -timeout 8m ./...
}

@test "go: the examples are compiled, and one is run" {
	go build -o "$W/bin/" ./examples/...
	mkdir "$W/work"
	cd "$W/work"
	echo old >f
	run sh -c "echo y | '$W/bin/approve' . sh -c 'echo new >f'"
	expect_status 0
	expect_output 'M f'
	equal f "$(cat f)" new
	run sh -c "echo n | '$W/bin/approve' . sh -c 'echo newer >f'"
	expect_status 0
	equal f "$(cat f)" new
	run "$W/bin/basic" sh -c 'echo newest >f; exit 0'
	expect_status 0
	expect_output 'M f'
	equal f "$(cat f)" new
	cp /bin/true mine
	run sh -c "echo n | '$W/bin/policy' sh -c './mine; echo \$?; /usr/bin/true; echo \$?'"
	expect_output 'as ["./mine"]'
	expect_output "$(printf '126\n0')"
	run "$W/bin/handlers" cat /secrets/token
	expect_exactly s3cret
}
