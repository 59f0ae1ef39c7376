package kvblock

// PutIDs and PutIDsPortable let the test compare both ways of writing ids.
var (
	PutIDs         = putIDs
	PutIDsPortable = putIDsPortable
)
