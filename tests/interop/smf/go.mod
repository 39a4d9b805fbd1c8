module sluice/interop/smf

go 1.24.0

require (
	github.com/omec-project/pfcpsim v1.4.0
	github.com/wmnsk/go-pfcp v0.0.24
	go.uber.org/zap v1.27.1
)

require go.uber.org/multierr v1.11.0 // indirect
