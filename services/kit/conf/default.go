package conf

// Default sets a field that has its zero value, for SetDefaults methods: a zero in a file means "the default".
func Default[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}
