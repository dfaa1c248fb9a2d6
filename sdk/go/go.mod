module github.com/sandlock/sandlock/sdk/go

go 1.19
