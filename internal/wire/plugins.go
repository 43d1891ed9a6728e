package wire

// PluginPrefix is the prefix of the name with which a plugin renews its certificate. No worker
// can have it.
const PluginPrefix = "plugin/"
