//go:build tools

// Package tools says which program go.mod is for.
package tools

import _ "github.com/versity/versitygw/cmd/versitygw"
