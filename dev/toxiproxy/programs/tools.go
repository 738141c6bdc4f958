//go:build tools

// Package tools says which program go.mod is for.
package tools

import _ "github.com/Shopify/toxiproxy/v2/cmd/server"
