//go:build tools

// Package tools says which program go.mod is for.
package tools

import _ "helm.sh/helm/v3/cmd/helm"
