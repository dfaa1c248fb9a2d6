# What suites of the SDKs load, after lib/common.

# The Go package, with the library as it was built. Nothing is fetched: it needs
# no other modules.
go_sdk() {
	export SANDLOCK SANDLOCK_PROGRAM=$SANDLOCK
	export PKG_CONFIG_PATH=$BUILD/sdk CGO_LDFLAGS=-Wl,-rpath,$BUILD
	export GOFLAGS=-buildvcs=false GOPROXY=off GOTOOLCHAIN=local
	export GOCACHE=$BUILD/sdk/go-cache GO111MODULE=on
	cd "$REPO/sdk/go" || return 1
}
