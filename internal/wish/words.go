package wish

// stopWords are what the carriers' rules in the United States name (STOP, QUIT,
// END, REVOKE, OPT OUT, CANCEL, UNSUBSCRIBE), the label of Meta's own opt-out
// button, and what people of other languages say for it. "No" alone is none: it
// answers questions.
var stopWords = []string{
	"stop", "stopall", "stop all", "stop promotions", "stop messages", "stop marketing", "stop it", "unsubscribe", "unsubscribe me",
	"cancel", "end", "quit", "revoke", "opt out", "optout", "remove me", "leave me alone", "no more messages", "do not contact me", "don't contact me",
	// de
	"stopp", "abmelden", "abbestellen", "austragen", "keine werbung", "keine nachrichten mehr", "werbung stoppen",
	// es
	"baja", "dar de baja", "darme de baja", "alto", "parar", "cancelar", "cancelar suscripción", "detener", "no más mensajes", "detener promociones",
	// pt
	"pare", "sair", "descadastrar", "cancelar inscrição", "remover", "não quero mais", "não quero receber", "parar promoções",
	// fr
	"arrêt", "arrêter", "arrêtez", "désabonner", "désabonnement", "se désabonner", "me désabonner", "désinscrire", "désinscription", "stop pub", "arrêter les promotions",
	// it
	"ferma", "basta", "annulla", "cancella", "cancellami", "disiscrivi", "disiscrivimi", "disiscriviti",
	// nl
	"afmelden", "uitschrijven", "stoppen", "meld me af", "geen berichten meer",
	// pl
	"rezygnuję", "rezygnacja", "wypisz", "wypisz mnie", "anuluj", "koniec",
	// tr
	"dur", "durdur", "iptal", "ret", "red", "çıkış", "aboneliği iptal et", "abonelikten çık", "mesaj istemiyorum",
	// ar
	"توقف", "أوقف", "إيقاف", "الغاء", "إلغاء", "إلغاء الاشتراك", "وقف",
	// hi
	"बंद", "बंद करो", "बंद करें", "रोकें", "रोको", "रुको", "रद्द करें", "सदस्यता समाप्त करें",
	// id, ms
	"berhenti", "batal", "batalkan", "berhenti berlangganan", "henti",
	// ru, uk
	"стоп", "отписаться", "отмена", "отпишите", "відписатися", "зупинити",
	// ro, cs, hu, sv, da, no, fi, el
	"dezabonare", "opreste", "odhlásit", "leiratkozás", "leiratkozom", "avsluta", "avregistrera", "afmeld", "frameld", "avmeld", "lopeta", "διακοπή", "διαγραφή",
	// he, fa, ur, bn
	"הסר", "הסרה", "עצור", "لغو", "لغو اشتراک", "بند کرو", "বন্ধ", "বন্ধ করুন",
	// zh, ja, ko, vi, th, sw
	"退订", "退訂", "取消", "停止", "配信停止", "解除", "수신거부", "중지", "dừng", "hủy", "ngừng", "หยุด", "ยกเลิก", "acha", "simama",
}

// startWords take a stop back. "Yes" alone is none: it answers questions too.
var startWords = []string{
	"start", "unstop", "subscribe", "resubscribe", "resume", "opt in", "optin",
	"anmelden", "starten",
	"alta", "suscribir", "suscribirme", "iniciar", "empezar", "comenzar",
	"inscrever", "assinar", "começar", "voltar a receber",
	"démarrer", "commencer", "s'abonner", "abonner",
	"inizia", "iscrivimi", "iscriviti",
	"aanmelden", "inschrijven",
	"zapisz", "zapisz mnie", "wznów",
	"başla", "başlat", "abone ol",
	"ابدأ", "اشتراك", "اشترك",
	"शुरू", "शुरू करें", "शुरू करो",
	"mulai", "berlangganan", "mula",
	"старт", "подписаться", "підписатися",
	"abonare", "přihlásit", "feliratkozás", "έναρξη",
	"התחל", "شروع", "শুরু",
	"订阅", "訂閱", "開始", "再開", "구독", "시작", "bắt đầu", "เริ่ม", "anza",
}

// politeWords may stand before or behind a wish.
var politeWords = []string{
	"please", "pls", "plz", "thank you", "thanks", "thx", "ty", "ok", "hi", "hello",
	"bitte", "danke", "por favor", "gracias", "obrigado", "obrigada", "merci", "s'il vous plaît", "svp", "stp",
	"grazie", "per favore", "alsjeblieft", "alstublieft", "bedankt", "dank je", "proszę", "dziękuję", "lütfen", "teşekkürler",
	"من فضلك", "شكرا", "لو سمحت", "कृपया", "धन्यवाद", "tolong", "terima kasih", "пожалуйста", "спасибо", "请", "謝謝", "谢谢",
}
