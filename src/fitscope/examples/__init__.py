"""Scripts to try fitscope on."""
