package kvblock

// HitLimit is the most tokens of a prompt that a prefix cache with this block size can supply: whole blocks, and never
// the last token, whose logits are always computed. It is floor((promptTokens-1)/blockTokens)*blockTokens, and 0 for
// an empty prompt or an unknown (0) block size.
func HitLimit(promptTokens, blockTokens int) int {
	if promptTokens < 1 || blockTokens < 1 {
		return 0
	}
	return (promptTokens - 1) / blockTokens * blockTokens
}
